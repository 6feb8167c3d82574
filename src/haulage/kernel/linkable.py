"""Code of others that kernels are linked with: files, and objects that hold it in memory."""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from haulage.compiler import linked
from haulage.compiler.linked import Linked
from haulage.errors import Unsupported


class LinkableCode:
    """Code in memory; what it is, its subclasses say.

    Args:
        data: bytes, a text, or a `BytesIO` or `StringIO`, which is read when the code is linked.
        name: for messages of the linker.

    Raises:
        Unsupported: `setup_callback`, `teardown_callback` or `nrt` is given.
    """

    default_name: ClassVar[str] = "<unnamed code>"
    # One of `linked.KINDS`, or "" for code that cannot be linked; and why not.
    kind: ClassVar[str] = ""
    why_not: ClassVar[str] = "it is of no kind; make a PTXSource, a Cubin or another subclass"

    def __init__(
        self,
        data: Any,
        name: str | None = None,
        setup_callback: Any = None,
        teardown_callback: Any = None,
        nrt: bool = False,
    ) -> None:
        given = {"setup_callback": setup_callback, "teardown_callback": teardown_callback}
        for option, value in {**given, "nrt": nrt}.items():
            if value:
                raise Unsupported(
                    f"{type(self).__name__}({option}=...): Haulage calls nothing of a program when "
                    "a module is loaded, and kernels have no heap"
                )
        self._name = name
        self._data = data

    @property
    def name(self) -> str:
        """The name that messages of the linker have."""
        return self._name or self.default_name

    @property
    def data(self) -> Any:
        """The code."""
        if isinstance(self._data, (io.StringIO, io.BytesIO)):
            return self._data.getvalue()
        return self._data

    @staticmethod
    def from_path(path: Any) -> "LinkableCode":
        """The code of a file, whose ending says of which kind it is.

        Raises:
            Unsupported: by its ending it is of no kind that can be linked.
            OSError: it cannot be read.
        """
        ending = Path(path).suffix
        kind = _ENDINGS.get(ending)
        if kind is None:
            said = f"extension {ending}" if ending else "no extension"
            raise Unsupported(
                f"Don't know how to link file with {said}: {os.fspath(path)}; there are "
                f"{', '.join(_ENDINGS)}"
            )
        return kind(Path(path).read_bytes(), Path(path).name)

    @classmethod
    def from_path_or_obj(cls, path_or_obj: Any) -> "LinkableCode":
        """An object of this class as it is, of a path the code of the file."""
        if isinstance(path_or_obj, LinkableCode):
            return path_or_obj
        return cls.from_path(path_or_obj)

    def linked(self) -> Linked:
        """The piece of code as the linker takes it.

        Raises:
            Unsupported: it cannot be linked.
            TypeError: its data are neither bytes nor a text.
        """
        if not self.kind:
            raise Unsupported(f"{self.name} cannot be linked: {self.why_not}")
        data = self.data
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"{type(self).__name__}({data!r}): expected bytes or a text")
        return Linked(self.kind, self.name, data.encode() if isinstance(data, str) else bytes(data))


class PTXSource(LinkableCode):
    """PTX."""

    default_name = "<unnamed-ptx>"
    kind = linked.PTX


class Cubin(LinkableCode):
    """Machine code for one architecture."""

    default_name = "<unnamed-cubin>"
    kind = linked.CUBIN


class Fatbin(LinkableCode):
    """Machine code and PTX for several architectures."""

    default_name = "<unnamed-fatbin>"
    kind = linked.FATBIN


class Object(LinkableCode):
    """An object file of the host, with code for GPUs in it."""

    default_name = "<unnamed-object>"
    kind = linked.OBJECT


class Archive(LinkableCode):
    """A library of such object files."""

    default_name = "<unnamed-archive>"
    kind = linked.LIBRARY


class CUSource(LinkableCode):
    """CUDA C++, which Haulage does not compile."""

    default_name = "<unnamed-cu>"
    why_not = (
        "Haulage does not compile CUDA C++; make PTX of it with nvcc -ptx -rdc=true, or with NVRTC"
    )


class LTOIR(LinkableCode):
    """NVVM's code for optimisation when it is linked, which the driver does not link."""

    default_name = "<unnamed-ltoir>"
    why_not = "the driver's linker takes no LTO-IR with PTX; compile it to PTX or a cubin"


_ENDINGS: dict[str, type[LinkableCode]] = {
    ".ptx": PTXSource,
    ".cubin": Cubin,
    ".fatbin": Fatbin,
    ".o": Object,
    ".obj": Object,
    ".a": Archive,
    ".lib": Archive,
    ".cu": CUSource,
    ".ltoir": LTOIR,
}


def pieces(link: Any) -> tuple[Linked, ...]:
    """What users give as `link`: a path, an object of code, or a sequence or set of them.

    Raises:
        As `LinkableCode.from_path` and `LinkableCode.linked`; TypeError for anything else.
    """
    if link is None:
        return ()
    items: Sequence[Any] = tuple(link) if isinstance(link, (list, tuple, set)) else (link,)
    for item in items:
        if not isinstance(item, (str, os.PathLike, LinkableCode)):
            raise TypeError(f"link={item!r}: expected a path, or an object such as PTXSource")
    return tuple(LinkableCode.from_path_or_obj(item).linked() for item in items)
