"""The representation that all stages work on.

In comes the text of a module as LLVM prints it; `reader` makes a `Function` of typed instructions
of it, and `kernel` sets the memory that a kernel names apart. Nothing here knows of threads or
blocks.
"""
