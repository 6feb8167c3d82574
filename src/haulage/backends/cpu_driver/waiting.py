"""How the code of a kernel tells the driver that one of its blocks may wait for another one."""

# It exports a function of this name, which nobody calls.
WAITS = "haulage_waits"
