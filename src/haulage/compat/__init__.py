"""What only numba.cuda's private modules have: no other room needs it, programs may."""
