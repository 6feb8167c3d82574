"""The errors, under the names that numba.roc gave them.

A failed launch and a mismatch of contexts are `HsaDriverError`s there, as failures of the driver
are; so it is the base of all errors here.
"""

from haulage.compat.errors import HsaWarning
from haulage.errors import DeviceError as HsaApiError
from haulage.errors import DeviceMismatch as HsaContextMismatchError
from haulage.errors import DeviceNotFound as HsaSupportError
from haulage.errors import HaulageError as HsaDriverError
from haulage.errors import LaunchError as HsaKernelLaunchError

__all__ = [
    "HsaDriverError",
    "HsaApiError",
    "HsaSupportError",
    "HsaContextMismatchError",
    "HsaKernelLaunchError",
    "HsaWarning",
]
