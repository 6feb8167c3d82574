"""Haulage on a GPU by turns with other packages for Python: `python -m benchmarks.gpu --help`."""
