"""Code of others that a kernel is linked with."""

import hashlib
from dataclasses import dataclass

# As `Backend.link` has them.
PTX, CUBIN, FATBIN, OBJECT, LIBRARY = KINDS = ("ptx", "cubin", "fatbin", "object", "library")


@dataclass(frozen=True)
class Linked:
    """One piece: its kind, one of `KINDS`; its name, for messages; its bytes."""

    kind: str
    name: str
    data: bytes

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {hashlib.sha256(self.data).hexdigest()}>"
