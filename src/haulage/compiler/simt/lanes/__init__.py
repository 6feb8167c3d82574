"""Runs a piece for a chunk of threads at once: each value a vector with one lane per thread.

LLVM widens a loop over threads only if their own code has no loop. Here a piece that has one is
written on vectors outright, as in Pharr and Mark, "ispc: A SPMD Compiler for High-Performance CPU
Programming" (InPar 2012): branches become masks, and a loop goes on while any lane is in it.
"""
