"""Code for GPUs of all kernels that a run of tests compiles, tried with the makers' assemblers."""
