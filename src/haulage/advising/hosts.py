"""Which host arrays are the same one, also where memory is used again for another."""

import itertools
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class Hosts:
    """Numbers of host arrays; a view of all elements has that of its array.

    Memory that was given back may have another array soon, so that an address tells of none.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[weakref.ref[Any], int]] = {}
        self._numbers = itertools.count()

    def number(self, host: "np.ndarray") -> int:
        """The number of an array; one thread at a time."""
        import numpy as np

        from haulage.runtime.transfers.entries import extent

        owner: Any = host
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        key = id(owner), extent(host)
        known = self._known.get(key)
        if known is not None and known[0]() is owner:
            return known[1]
        number = next(self._numbers)

        def forget(gone: "weakref.ref[Any]") -> None:
            if self._known.get(key, (None, 0))[0] is gone:
                del self._known[key]

        self._known[key] = weakref.ref(owner, forget), number
        return number
