"""The errors, under the names that numba.roc gave them."""

from haulage.errors import DeviceError as HsaApiError
from haulage.errors import DeviceError as HsaDriverError
from haulage.errors import DeviceMismatch as HsaContextMismatchError
from haulage.errors import DeviceNotFound as HsaSupportError
from haulage.errors import LaunchError as HsaKernelLaunchError

__all__ = [
    "HsaDriverError",
    "HsaApiError",
    "HsaSupportError",
    "HsaContextMismatchError",
    "HsaKernelLaunchError",
]
