"""What becomes SPIR-V for OpenCL devices."""
