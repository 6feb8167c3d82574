"""A stand-in for a GPU that executes PTX: text goes to LLVM IR for this machine's processor.

It follows NVIDIA's PTX ISA document and knows nothing of the compiler whose output it runs; what it
does not know is an error that names it. Threads run one at a time, as fibers (`scheduler.c`).
"""

import os

# What the tests' kernels are compiled for; a newer one has more instructions.
ARCHITECTURE = os.environ.get("HAULAGE_PTX_ARCHITECTURE", "sm_80")
