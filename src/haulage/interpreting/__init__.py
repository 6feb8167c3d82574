"""Kernels run as Python, with the values of their launch, for pdb to stop one of their threads."""
