"""The driver of the CPU device: memory, streams, code and worker threads of this process.

    processor.py    what the processor is, how much memory it has
    figures.py      what the device tells of itself: limits, CUDA's attributes
    identity.py     which processor code is made for
    memory.py       host memory that the device owns or has registered
    ranges.py       addresses that are reserved, and memory behind their parts
    room.py         whether there is room for more memory
    mappings.py     the system's calls for both, and for shared memory
    addresses.py    whether an address of someone else's is memory of this process
    copies.py       contiguous and strided copies, fills; large ones by all workers
    units.py        which of it other processes map, unit by unit
    ipc.py          handles by which they find it
    shared_pages.py the files and mappings of it
    streams.py      streams, events and the rules of their order
    tasks.py        what streams are made of
    conflicts.py    which memory the tasks of streams use
    costs.py        what work of streams takes, for the choice who runs it
    threads.py      the Python threads that run what streams hold
    adversary.py    work run as late and as reordered as the rules allow
    loader.py       host object files, linked into the process by LLVM
    linker.py       the same without LLVM, for programs whose code is all found on disk
    elf.py          what stands in an object file
    half.py         conversions of halves, for processors that lack them
    pool.py         the native worker threads that run the blocks of kernels, of haulage._core
    waiting.py      how a kernel's code says that its blocks may wait for one another
    crashes.py      what Python is told of kernels that access what is no memory
    cooperative.py  grids whose blocks wait for one another
    messages.py     what running kernels tell the host

`backends/cpu.py` is its only user.
"""
