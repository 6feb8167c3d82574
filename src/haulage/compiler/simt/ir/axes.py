"""The axes of a block and its threads' indices along them."""

AXES = "xyz"
