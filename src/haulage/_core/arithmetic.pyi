FOR_KERNELS: dict[str, int]
