"""Kernels on their way to a device: arguments, host arrays, loaded code."""
