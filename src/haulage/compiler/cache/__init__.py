"""Compiled code between processes: what it depends on, and what a file of it says.

names.py      what a function's bytecode reads: globals, closure variables, attributes of modules
values.py     the digest of values and of every function reached through them
kept.py       a kernel's body that is typed and lowered only when code is missing
record.py     compiled code as facts that JSON can say, and back

Files are the work of `disk_cache`. Nothing here imports Numba or llvmlite: a program whose kernels
are all kept runs without them.
"""
