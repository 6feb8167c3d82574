"""Kernels whose threads cannot be run region by region: each thread is a coroutine.

In comes the function of one thread; out comes a function that is suspended at barriers, and the
scheduler of a block that resumes it.
"""
