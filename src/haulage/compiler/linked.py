"""Code of others that a kernel is linked with."""

import re
from dataclasses import dataclass

# As `Backend.link` has them.
PTX, CUBIN, FATBIN, OBJECT, LIBRARY = KINDS = ("ptx", "cubin", "fatbin", "object", "library")

# Before the name of a declared function, until there is PTX: LLVM and libdevice would take one that
# is called `sin` for theirs, and a kernel may have the same name.
DECLARED = "haulage_declared_"

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$][\w$]+", re.ASCII)


def is_name(name: object) -> bool:
    """Whether a function can have it as its name in PTX."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name != "WARP_SZ"


@dataclass(frozen=True)
class Linked:
    """One piece: its kind, one of `KINDS`; its name, for messages; its bytes."""

    kind: str
    name: str
    data: bytes

    def __repr__(self) -> str:
        import hashlib  # 4 ms, with OpenSSL, that no program without such code waits for

        return f"<{self.kind} {self.name}: {hashlib.sha256(self.data).hexdigest()}>"
