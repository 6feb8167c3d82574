"""What the strategies share when they write a module.

In come parallel regions and the memory that a kernel names; out come the functions of regions, loop
nests and their bounds, storage, and the entry of a launch.
"""
