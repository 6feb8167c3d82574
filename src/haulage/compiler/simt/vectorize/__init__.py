"""Whole-function vectorisation of parallel regions whose threads leave loops at different times.

In comes a parallel region (`plan` chooses which), out comes a function on vectors with a lane for
each of a few threads and a mask for each block, as ispc and the Region Vectorizer make them.
"""
