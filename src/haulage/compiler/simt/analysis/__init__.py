"""What is known of a function, and is changed by nothing in here.

In comes a `Function`; out come facts: dominators and loops, which values are uniform, what lives
where, affine forms, value ranges, what may depend on what in memory, and what barriers order.
"""

# The axes of a block, and of its threads' indices.
AXES = "xyz"
