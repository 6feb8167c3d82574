"""What a kernel does with the memory of its arguments: see `model.py`."""
