"""What the back ends of GPUs have in common: all that is not a call of one maker's driver."""
