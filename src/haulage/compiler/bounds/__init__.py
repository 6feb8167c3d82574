"""Bounds checks that are proven when a launch begins, so that its threads need not make them.

In comes a cleaned-up kernel whose threads stop at indices out of bounds; out goes one without the
checks that hold in all launches which pass some tests, and these tests. An index is compared with
the size of its axis in each iteration of each thread, but what it can be at most follows from the
grid, the loops and the conditions around it: the test is one comparison of numbers that a launch
knows. Kernels that pass are then as fast as without checks.

The method is the elimination of bounds checks by linear inequalities: Gupta, "Optimizing Array
Bound Checks Using Flow Analysis" (LOPLAS 1993), Bodik, Gupta and Sarkar, "ABCD" (PLDI 2000), and
LLVM's LoopPredication, which makes the same tests for one loop.
"""
