"""Memory managers of others: numba's interface for external memory managers (EMM, NBEP 7).

`choice` says which one is asked, `managers` has the classes to derive from, `pointers` what they
give.
"""
