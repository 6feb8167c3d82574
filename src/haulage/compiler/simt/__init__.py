"""The compiler for CPUs: from the function of one thread to one that runs a whole block.

`pipeline` runs the passes that `passes` declares. A kernel's body is read into objects (`ir/`),
split where its threads must wait for each other, and written again as a block function: each
parallel region in loops over the threads (`emit/`), or each thread as a coroutine where that
cannot be done (`coroutines/`).
"""
