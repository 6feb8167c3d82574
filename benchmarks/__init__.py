"""Benchmarks against other runtimes: `python -m benchmarks --help`, or `make bench`."""
