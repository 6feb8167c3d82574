"""Where NVIDIA's files are; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__,
    "it looks for NVIDIA's compiler and libraries, which this version needs none of; "
    "`haulage info --verbose` says which devices there are and what was looked for",
)
