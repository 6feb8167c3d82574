"""The search for NVIDIA's libraries, of which Haulage needs none."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__, "it looks for NVIDIA's libraries; `haulage info` shows what devices were looked for"
)
