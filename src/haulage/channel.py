"""What threads on a GPU tell the host, by way of host memory that devices write to: the layout of a
device's channel, which code of kernels, drivers and stand-ins for these agree on.

A module may have these variables, which the back end fills when it has loaded it:

    haulage_channel (u64)   the address of its device's channel
    haulage_module (u32)    the module's number, 1 to 4095; 0 where there are more modules

The channel, little endian:

    @0 u32 any fault        1 once a thread has stopped with a fault since the host last looked
    @4 u32 capacity         8-byte cells of the ring of messages, a power of two
    @8 u64 head             cells that were taken since ever; threads advance it
    @16 u64 tail            cells that the host has read since ever; the host advances it
    @24 u64 missing         messages that found no room since ever; threads advance it
    @64 u32 faults[4096]    by module number, the greatest fault of its threads
    @16448 u64 ring[capacity]

A message of n cells takes n + 1 cells of the ring. The first one has its number in the upper half
and n + 1 in the lower one, and is written last of all; a cell that is 0 there has not been written
yet. The host makes all cells that it has read 0 before it advances the tail.
"""

CHANNEL, MODULE = "haulage_channel", "haulage_module"
# The function of kernels' modules that tells a message: void (i32 number, ptr cells, i32 count). It
# writes to no memory of a kernel.
MESSAGE = "haulage_message"

# Faults that there is room for.
MODULES = 4096
CAPACITY_AT, HEAD_AT, TAIL_AT, MISSING_AT, FAULTS_AT = 4, 8, 16, 24, 64
RING_AT = FAULTS_AT + 4 * MODULES

# Cells of the ring that Haulage makes: a MiB, as the CPU device has.
CAPACITY = 1 << 17
NBYTES = RING_AT + 8 * CAPACITY
