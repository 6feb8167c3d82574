"""Strided memory on a device, and copies between it and the host."""
