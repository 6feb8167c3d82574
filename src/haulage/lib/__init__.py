"""What programs would otherwise write as kernels themselves, written in the kernel language."""
