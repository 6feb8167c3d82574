"""Where programs for numba.cuda look for its classes by their long names."""
