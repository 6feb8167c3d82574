"""Names of arrays as columns of source locations, which LLVM keeps with the accesses."""

from haulage import forks

# LLVM keeps 16 bits of a column.
_MOST = 0xFFFF


class Names:
    """Names by the number of a column, from 1 on; the first one is no name. Thread safe."""

    def __init__(self) -> None:
        self._columns = {"": 1}
        self._lock = forks.lock()

    def column(self, name: str) -> int:
        """The column of a name; the same one each time. Of very many, the later ones have none."""
        with self._lock:
            if len(self._columns) == _MOST:
                return self._columns.get(name, 1)
            return self._columns.setdefault(name, len(self._columns) + 1)

    def of(self, column: int) -> str:
        """The name of a column, or nothing."""
        with self._lock:
            listed = list(self._columns)
        return listed[column - 1] if 0 < column <= len(listed) else ""


NAMES = Names()
