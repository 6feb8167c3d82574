"""Memory of other processes; its handles are pickled with the name of this module.

So a process that unpickles one knows the kinds of devices, even if it has imported nothing else.
"""

import copyreg
from collections.abc import Callable
from typing import Any

from haulage.runtime.exchange.ipc import IpcArrayHandle, IpcHandle, open_ipc_array

__all__ = ["IpcArrayHandle", "IpcHandle", "open_ipc_array"]


def made_again(kind: type, *described: Any) -> Any:
    """The handle that was pickled."""
    return kind(*described)


def _reduced(handle: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    kind, described = handle.__reduce__()
    return made_again, (kind, *described)


for _kind in (IpcHandle, IpcArrayHandle):
    copyreg.pickle(_kind, _reduced)
