"""The parts of the NVIDIA back end: CUDA's driver, by way of NVIDIA's `cuda-bindings`."""
