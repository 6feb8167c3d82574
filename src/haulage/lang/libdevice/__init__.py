"""CUDA's libdevice: what `haulage.cuda.libdevice` offers, each function by its definition.

`words.py` is the table of functions, `table.py` says which definition is behind a name, and the
other files hold definitions written in the kernel language. A target with a libdevice of its own
takes name and types from the table and needs no definition.
"""
