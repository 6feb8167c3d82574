"""Kernels with mistakes, whose lines say by comments what `haulage check` is to find there."""
