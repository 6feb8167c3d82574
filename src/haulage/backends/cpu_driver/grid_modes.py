"""What the code of a kernel with a barrier of the grid and its driver agree on; see
`compiler/simt/grids.py`, which writes that code."""

# What is done with each block: it is begun, resumed, what is left of it dropped, or it is resumed
# if it gave way to others. The mode is the low bits of a 32-bit word of the launch.
BEGIN, RESUME, DROP, GO_ON = 0, 1, 2, 3
MODES = 7
MODE_AT = 28

# An outcome of at least `WAITS` is a block that waits for the grid, one of at least `GAVE_WAY` a
# block whose threads wait for writes of other blocks.
WAITS = 1 << 30
GAVE_WAY = WAITS + (1 << 29)
