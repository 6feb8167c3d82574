"""Devices, their streams, events, captures and graphs, and what kernels report."""
