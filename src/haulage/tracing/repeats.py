"""Copies that repeated what was copied before: found by comparing digests of the contents."""

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from haulage.runtime.observing import DOWNLOAD

if TYPE_CHECKING:
    import numpy as np

# Digests that are kept; the one that was met longest ago goes first.
_MOST = 65536

# (kind, device, address for downloads, digest)
_Key = tuple[str, str, int, bytes]


class Repeats:
    """How often, and from which lines, unchanged data was copied again."""

    def __init__(self) -> None:
        self._met: OrderedDict[_Key, int] = OrderedDict()
        # (kind, device, place of the first copy, place of the later one) -> [how many, bytes]
        self.found: dict[tuple[str, str, int, int], list[int]] = {}
        # Copies, and their bytes, that were still on their way and could not be compared.
        self.not_compared = [0, 0]

    def look(self, device: str, kind: str, host: "np.ndarray", address: int, place: int) -> None:
        """Compare what `host` holds, uploaded or downloaded just now, with what was before.

        An upload repeats one of the same contents to the same device. A download repeats one of
        the same contents from the same address.
        """
        if not host.nbytes:
            return
        key = (kind, device, address if kind == DOWNLOAD else 0, digest(host))
        first = self._met.get(key)
        if first is None:
            self._met[key] = place
            if len(self._met) > _MOST:
                self._met.popitem(last=False)
            return
        self._met.move_to_end(key)
        found = self.found.setdefault((kind, device, first, place), [0, 0])
        found[0] += 1
        found[1] += host.nbytes

    def pass_over(self, nbytes: int) -> None:
        """Note a copy that cannot be compared."""
        self.not_compared[0] += 1
        self.not_compared[1] += nbytes


def digest(host: "np.ndarray") -> bytes:
    """A digest of the bytes of an array, in the order in which they lie, and of their number."""
    made = hashlib.blake2b(digest_size=16)
    made.update(f"{host.nbytes}".encode())
    flat = host.reshape(-1, order="A") if host.flags.forc else host.flatten()
    made.update(flat.view("u1").data)
    return made.digest()
