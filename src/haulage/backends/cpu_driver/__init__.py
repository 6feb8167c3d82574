"""The driver of the CPU device: memory, streams, code and worker threads of this process.

    memory.py     host memory that the device owns or has registered
    copies.py     contiguous and strided copies, fills
    processor.py  what the processor is, how much memory it has
    streams.py    streams, events and the rules of their order
    threads.py    the Python threads that run what streams hold
    loader.py     host object files, linked into the process by LLVM
    linker.py     the same without LLVM, for programs whose code is all found on disk
    elf.py        what stands in an object file
    identity.py   which processor code is made for
    pool.py       the native worker threads that run the blocks of kernels
    pool_ir.py    their code, as LLVM IR

`backends/cpu.py` is its only user.
"""
