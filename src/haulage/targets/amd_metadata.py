"""What a code object for an AMD GPU says of its kernels, in the note that LLVM writes into it.

The HIP runtime goes by it: it copies a launch's arguments to where the note has them, fills in the
hidden ones, and gives the GPU the memory that a kernel is said to take. LLVM's "User Guide for
AMDGPU Backend" has the names ("Code Object V5 Metadata").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from haulage.backends import message_pack
from haulage.errors import CompileError
from haulage.targets.amd_linker import elf

_METADATA = 32  # n_type NT_AMDGPU_METADATA
_OWNER = b"AMDGPU\0"

_Kind = TypeVar("_Kind", int, str, bool)


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: where it is in the launch's block of arguments, and what for: `kind`
    is `by_value`, `global_buffer` or, of those that the runtime gives, `hidden_...`."""

    name: str
    kind: str
    offset: int
    nbytes: int

    @property
    def is_hidden(self) -> bool:
        """Whether it is the runtime's, and no launch passes it."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelMetadata:
    """What is said of a kernel.

    `descriptor` is the symbol by which the loader finds it. `argument_bytes` is the size of the
    block of arguments, with hidden ones. Of a block of threads: `shared_bytes`, without dynamic
    ones, and `max_threads`. Of a thread: `local_bytes` of its stack, to which calls by address may
    add if it `uses_dynamic_stack`, `registers`, of which are `accumulation_registers`, and
    `spilled_registers`. Of a wavefront of `lanes` threads: `scalar_registers` and
    `spilled_scalar_registers`.
    """

    name: str
    descriptor: str
    arguments: tuple[Argument, ...]
    argument_bytes: int
    argument_align: int
    shared_bytes: int
    local_bytes: int
    uses_dynamic_stack: bool
    max_threads: int
    lanes: int
    registers: int
    accumulation_registers: int
    scalar_registers: int
    spilled_registers: int
    spilled_scalar_registers: int

    @property
    def resources(self) -> dict[str, int]:
        """What it takes, by the names that they have above."""
        names = (
            *("registers", "accumulation_registers", "scalar_registers", "spilled_registers"),
            *("spilled_scalar_registers", "local_bytes", "shared_bytes", "lanes", "max_threads"),
        )
        return {name: getattr(self, name) for name in names}

    @property
    def dynamic_shared_at(self) -> int | None:
        """Where in the block of arguments it reads how many bytes of dynamic shared memory it has;
        None if it does not.

        Older HIP runtimes (that of ROCm 5.2) do not know this argument for the runtime's: they copy
        it from the launch's own block, which then has to be so long.
        """
        found = (each.offset for each in self.arguments if each.kind == "hidden_dynamic_lds_size")
        return next(found, None)

    def check_arguments(self, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """See that a launch which packs arguments of those sizes at those offsets passes what the
        kernel reads.

        Raises:
            CompileError: it does not; the message names the first argument that differs.
        """
        passed = list(zip(offsets, sizes, strict=True))
        wanted = [each for each in self.arguments if not each.is_hidden]
        if len(passed) != len(wanted):
            raise self._differs(
                f"it has {len(wanted)} arguments, and a launch passes {len(passed)}"
            )
        for number, (given, each) in enumerate(zip(passed, wanted, strict=True)):
            if given != (each.offset, each.nbytes):
                raise self._differs(
                    f"it reads argument {number} ({each.name or each.kind}), {each.nbytes} bytes, "
                    f"at {each.offset}, and a launch passes {given[1]} bytes at {given[0]}"
                )
        end = max([offset + size for offset, size in passed], default=0)
        first = min([each.offset for each in self.arguments if each.is_hidden], default=None)
        if self.argument_bytes < end or (first is not None and first < end):
            raise self._differs(
                f"a launch passes {end} bytes, of its {self.argument_bytes}, of which those from "
                f"{first} on are the runtime's"
            )

    def _differs(self, how: str) -> CompileError:
        return CompileError(f"the code of {self.name} is not called as it is made: {how}")


def kernels(code: bytes) -> dict[str, KernelMetadata]:
    """The kernels of a linked code object, by name.

    Raises:
        CompileError: these bytes are no code object, or its note is damaged or of another version.
    """
    said = _note(code)
    try:
        table = message_pack.read(said)
    except ValueError as error:
        raise _unreadable(str(error)) from error
    if not isinstance(table, dict):
        raise _unreadable("no table")
    version = table.get("amdhsa.version")
    if not isinstance(version, list) or len(version) != 2 or version[0] != 1:
        raise _unreadable(f"version 1 was expected, not {version!r}")
    listed = table.get("amdhsa.kernels", [])
    if not isinstance(listed, list):
        raise _unreadable("its kernels are no list")
    made = [_kernel(each) for each in listed]
    return {each.name: each for each in made}


def _unreadable(why: str) -> CompileError:
    return CompileError(f"a code object for an AMD GPU says nothing readable of its kernels: {why}")


def _note(code: bytes) -> bytes:
    """The note's content."""
    if code[:7] != elf.IDENTITY or len(code) < elf.HEADER.size:
        raise _unreadable(f"these {len(code)} bytes are no ELF file")
    header = elf.HEADER.unpack_from(code)
    table, size, count = header[5], header[9], header[10]
    if size != elf.PROGRAM_HEADER.size or table + size * count > len(code):
        raise _unreadable("its segments are not there")
    for number in range(count):
        kind, _, offset, _, _, nbytes, _, _ = elf.PROGRAM_HEADER.unpack_from(
            code, table + number * size
        )
        if kind == elf.NOTES:
            found = _of_notes(code[offset : offset + nbytes])
            if found is not None:
                return found
    raise _unreadable("it has no note of AMD's; is it linked?")


def _of_notes(notes: bytes) -> bytes | None:
    at, header = 0, elf.NOTE_HEADER.size
    while at + header <= len(notes):
        of_name, of_content, kind = elf.NOTE_HEADER.unpack_from(notes, at)
        name_at = at + header
        content_at = name_at + elf.up(of_name, 4)
        if kind == _METADATA and notes[name_at : name_at + of_name] == _OWNER:
            content = notes[content_at : content_at + of_content]
            if len(content) < of_content:
                raise _unreadable("its note is cut off")
            return content
        at = content_at + elf.up(of_content, 4)
    return None


def _kernel(said: Any) -> KernelMetadata:
    arguments = said.get(".args", []) if isinstance(said, dict) else None
    if not isinstance(arguments, list):
        raise _unreadable("a kernel's arguments are no list")

    def number(key: str, otherwise: int | None = None) -> int:
        return _value(said, key, int, otherwise)

    return KernelMetadata(
        name=_value(said, ".name", str),
        descriptor=_value(said, ".symbol", str),
        arguments=tuple(_argument(each) for each in arguments),
        argument_bytes=number(".kernarg_segment_size"),
        argument_align=number(".kernarg_segment_align"),
        shared_bytes=number(".group_segment_fixed_size"),
        local_bytes=number(".private_segment_fixed_size"),
        uses_dynamic_stack=_value(said, ".uses_dynamic_stack", bool, False),
        max_threads=number(".max_flat_workgroup_size"),
        lanes=number(".wavefront_size"),
        registers=number(".vgpr_count"),
        accumulation_registers=number(".agpr_count", 0),
        scalar_registers=number(".sgpr_count"),
        spilled_registers=number(".vgpr_spill_count", 0),
        spilled_scalar_registers=number(".sgpr_spill_count", 0),
    )


def _argument(said: Any) -> Argument:
    return Argument(
        _value(said, ".name", str, ""),
        _value(said, ".value_kind", str),
        _value(said, ".offset", int),
        _value(said, ".size", int),
    )


def _value(said: Any, key: str, kind: type[_Kind], otherwise: _Kind | None = None) -> _Kind:
    value = said.get(key, otherwise) if isinstance(said, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _unreadable(f"{key} is {value!r}")
    return value
