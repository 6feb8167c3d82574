"""Work-item loops: each parallel region in a loop over the threads of a block, or over warps.

In come parallel regions and functions on vectors; out comes the function of a block.
"""
