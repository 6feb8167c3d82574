"""Whole-function vectorisation of parallel regions with loops that threads leave at different
times.

In comes a parallel region, out comes a function on vectors with a lane for each of a few threads
and masks for its control flow, as ispc makes them.
"""
