"""Kernels that are checked while they run.

In comes a kernel's module as the front end made it, with the lines of its source; out goes one with
a call in front of each access of memory that others can see, of each barrier and each fence, and a
table of the places that these calls name by numbers. `_core/check_native.h` has what they call.
"""
