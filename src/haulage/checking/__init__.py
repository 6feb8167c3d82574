"""`haulage check`: what is wrong with a program's kernels and with how it uses its device."""
