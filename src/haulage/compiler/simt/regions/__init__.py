"""Loop fission at barriers: a kernel becomes parallel regions.

In comes the function of one thread; out comes the same function, split at barriers and at the
headers of loops that are interchanged with the loop over threads, its parallel regions, and what is
kept in context arrays from one to the next.
"""
