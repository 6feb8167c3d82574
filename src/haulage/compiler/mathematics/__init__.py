"""The functions of `math` as LLVM code that can be widened: see `definitions.py`."""
