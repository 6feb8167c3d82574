"""The transformation that runs a whole block of threads in one call on a CPU.

A kernel's body, a function of one thread, is read into a small model, cut where its threads must
wait for each other, and written again as a block function: for each region a loop over the threads
of the block (`cut`), or each thread as a coroutine where that cannot be done (`coroutine`).
"""
