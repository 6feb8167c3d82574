"""What the code of a kernel with a barrier of the grid and its driver agree on; see
`compiler/simt/grids.py`, which writes that code."""

# What is done with each block: it is begun, resumed, or what is left of it dropped. The mode is the
# low bits of a 32-bit word of the launch.
BEGIN, RESUME, DROP = 0, 1, 2
MODES = 7
MODE_AT = 28

# An outcome of at least this is a block that waits.
WAITS = 1 << 30
