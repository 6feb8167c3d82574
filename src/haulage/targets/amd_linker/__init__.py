"""Links LLVM's object for an AMD GPU to the code object that AMD's driver loads.

reading.py      what stands in the object, and what is refused of it
outputs.py      the code object's sections and segments, and where they lie
notes.py        what the note says of arguments that no kernel reads
relocations.py  what is written into sections when that is known
tables.py       tables of symbols and names
dynamic.py      the sections that a loader looks at
writing.py      the file
linking.py      all of that, one after the other
lld.py          LLVM's linker in its place, where `HAULAGE_AMD_LINKER` says so
"""

from haulage import config
from haulage.targets.amd_linker import linking, lld, notes


def link(code: bytes, unread: tuple[str, ...] = ()) -> bytes:
    """The code object of a relocatable object, code object v5.

    Args:
        unread: kinds of the HIP runtime's arguments (`hidden_...`) that no kernel reads although
            LLVM lists them. The code object says that they are nothing: an older runtime would take
            one that it does not know for an argument of the launch, and read it from there.

    Raises:
        CompileError: the object is damaged, or something in it cannot be linked: a symbol that is
            not defined, COMDAT groups, thread-local variables and what is not known here.
        Unsupported: `HAULAGE_AMD_LINKER` asks for an `ld.lld` that is not there.
        ValueError: `HAULAGE_AMD_LINKER` is set to something that is no linker.
    """
    if unread:
        code = notes.without(code, unread)
    return linking.link(code) if config.amd_linker() == "haulage" else lld.link(code)
