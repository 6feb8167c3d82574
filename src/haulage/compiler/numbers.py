"""Numbers for what compiled code says to the host: made from the content, so that they fit code of
other processes too."""

import hashlib
from typing import Generic, TypeVar

from haulage import forks

Item = TypeVar("Item")

# Leaves room in an int32 for the marks that code of blocks adds to a number.
BITS = 29


class Numbers(Generic[Item]):
    """Positive numbers of 29 bits for items, which are told apart by `==` and their `repr`."""

    def __init__(self) -> None:
        self._items: dict[int, Item] = {}
        self._numbers: dict[Item, int] = {}
        self._lock = forks.lock()

    def of(self, item: Item) -> int:
        """The number of an item; the same one each time."""
        with self._lock:
            number = self._numbers.get(item)
            if number is None:
                digest = hashlib.sha256(repr(item).encode("utf-8", "surrogatepass")).digest()
                number = int.from_bytes(digest[:4], "little") >> (32 - BITS)
                while number == 0 or number in self._items:
                    number = (number + 1) % (1 << BITS)
                self._items[number] = item
                self._numbers[item] = number
            return number

    def select(self, numbers: set[int]) -> dict[int, Item]:
        """The items behind some numbers, in order."""
        return {number: self._items[number] for number in sorted(numbers)}

    def claim(self, items: dict[int, Item]) -> bool:
        """Let items have numbers that were given elsewhere; False, and nothing is changed, if
        others have one of these numbers."""
        with self._lock:
            if any(self._items.get(number, item) != item for number, item in items.items()):
                return False
            for number, item in items.items():
                self._items[number] = item
                self._numbers.setdefault(item, number)
            return True
