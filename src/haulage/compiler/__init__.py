"""From a Python function to code for a target, in named stages."""
