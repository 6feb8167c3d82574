"""Writes the module: functions of parallel regions, work-item loops over threads, and the entry.

In come parallel regions and functions on vectors; out come the function of a block, which runs each
region in loops over its threads or over warps, and the entry of a launch. What a block function
needs whatever the strategy, its storage and its parameters, is here too.
"""
