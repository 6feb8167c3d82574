"""From the front end's LLVM IR to code for GPUs, which run each thread by themselves."""
