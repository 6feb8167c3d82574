"""What is written at the end: work-item loops, the function of a block, the entry of a launch.

In come parallel regions, functions on vectors or coroutines; out comes the text of a module.
"""
