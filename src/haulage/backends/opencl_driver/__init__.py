"""The parts of the OpenCL back end: OpenCL's ICD loader, by ctypes."""
