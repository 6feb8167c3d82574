"""Where programs for numba.roc look for its classes by their long names."""
