"""The prototypes of NVIDIA's runtime library, which Haulage does not call."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__, "it describes functions of NVIDIA's runtime library; cuda.runtime tells its version"
)
