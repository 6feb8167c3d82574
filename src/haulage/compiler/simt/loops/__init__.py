"""Transformations of loops, and of a kernel before it is cut.

In comes the function of one thread, out comes one that the loops over threads suit better.
"""
