"""Benchmarks: `python -m benchmarks`, or `make bench`. No time makes them pass or fail."""
