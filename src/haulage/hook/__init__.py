"""Programs written for `numba.cuda`, `numba.roc` and `numba.hip` get Haulage's words instead."""
