"""The parts of the AMD back end: the HIP runtime, `libamdhip64`, by ctypes."""
