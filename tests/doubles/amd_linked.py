"""What Haulage's linker and LLVM's make of one object, compared."""

import struct
import subprocess
from pathlib import Path
from typing import Any

from doubles import amd_loader
from haulage.targets.amd_linker import linking


def by_lld(code: bytes, folder: Path, program: str, *options: str) -> bytes:
    """The code object that LLVM's linker makes of an object; it must warn of nothing."""
    source, made = folder / "kernel.o", folder / "kernel.hsaco"
    source.write_bytes(code)
    options = ("-shared", "-Bsymbolic", "--no-undefined", *options)
    command = [program, *options, "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done
    return made.read_bytes()


def seen(code: bytes) -> bytearray:
    """The memory of a code object, without what numbers or counts sections: where their table is,
    and for each exported symbol the number of its section, which a test of its own looks at."""
    room = amd_loader.memory(code)
    room[40:48], room[60:64] = bytes(8), bytes(4)
    (table,) = (each for each in amd_loader.sections(code) if each[1] == 11)
    for at in range(table[3], table[3] + table[5], 24):
        room[at + 6 : at + 8] = bytes(2)
    return room


def symbols(code: bytes, kind: int) -> dict[str, tuple[Any, ...]]:
    """What a table of symbols has by name, with the names of sections."""
    headers = amd_loader.sections(code)
    (table,) = (each for each in headers if each[1] == kind)
    names, found = headers[table[6]][4], {}
    for at in range(table[4] + 24, table[4] + table[5], 24):
        name, info, other, section, value, nbytes = struct.unpack_from("<IBBHQQ", code, at)
        where = amd_loader.section_name(code, headers[section]) if section < 0xFF00 else section
        found[amd_loader.text(code, names + name)] = (info, other, where, value, nbytes)
    return found


def contents(code: bytes) -> dict[str, bytes]:
    """The bytes of what is not loaded, by name."""
    return {
        amd_loader.section_name(code, each): code[each[4] : each[4] + each[5]]
        for each in amd_loader.sections(code)
        if each[1] == 1 and not each[2] & 2
    }


def assert_as_lld(code: bytes, folder: Path, program: str) -> None:
    """Raise an AssertionError unless an object becomes what LLVM's linker of that path makes."""
    ours, theirs = linking.link(code), by_lld(code, folder, program, "-O0")
    assert amd_loader.segments(ours) == amd_loader.segments(theirs)
    assert seen(ours) == seen(theirs)
    assert struct.unpack_from("<I", ours, 48) == struct.unpack_from("<I", theirs, 48)
    assert symbols(ours, 11) == symbols(theirs, 11)
    # `_DYNAMIC` names a section to programs on hosts.
    assert symbols(ours, 2).items() == symbols(theirs, 2).items() - {
        ("_DYNAMIC", symbols(theirs, 2)["_DYNAMIC"])
    }
    loaded, by_theirs = contents(ours), contents(theirs)
    # It has the version of LLVM's linker.
    assert loaded.keys() - {".comment"} == by_theirs.keys() - {".comment"}
    assert all(loaded[name] == by_theirs[name] for name in loaded if name != ".comment")
