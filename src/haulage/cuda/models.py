"""What values of a type are made of in kernels, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.extending import data_models as cuda_data_manager
from haulage.compiler.frontend.extending import register_model

__all__ = ["cuda_data_manager", "register_model"]

__getattr__ = absent(
    __name__, "register_model is for types of yours; base classes are in numba.extending.models"
)
