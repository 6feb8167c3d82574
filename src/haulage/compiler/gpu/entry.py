"""The function that a launch starts: it calls the kernel's body and tells of its thread's fault."""

import re
from typing import NamedTuple

from haulage.compiler.faults import FIGURES
from haulage.compiler.gpu.channel import FAULT
from haulage.compiler.linked import DECLARED
from haulage.targets.nvidia_math import NAMES

# What is something else in PTX, or in the module: the functions of mathematics too, see `NAMES`.
_RESERVED = ("WARP_SZ", "_")
_OTHERS = ("__nv", "__ocml_", "__oclc_", "haulage_", "llvm")
_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)


class Entry(NamedTuple):
    """How LLVM has a kernel of a maker's GPUs: the word for it, the type of its pointers, and
    attributes behind its parameters; `more`: parameters behind the user's, which others add."""

    word: str
    pointer: str = "ptr"
    attributes: str = ""
    more: tuple[str, ...] = ()


PTX = Entry("ptx_kernel")


def entry_name(name: str, text: str) -> str:
    """The name that profilers show of a Python function's kernel; PTX takes letters, digits and
    underscores. `text` is that of its module."""
    plain = _NOT_IN_NAMES.sub("_", name.rpartition(".")[2])
    taken = plain in NAMES or plain in _RESERVED or plain.startswith(_OTHERS)
    called = f"{DECLARED}{plain}" in text and (
        re.search(rf"\b{DECLARED}{plain}\b", text) is not None
    )
    return f"kernel_{plain}" if taken or called or plain[:1].isdigit() else plain


def with_entry(
    text: str,
    body: str,
    name: str,
    arguments: tuple[str, ...],
    faults: bool,
    how: Entry = PTX,
) -> str:
    """The module of `text` with a kernel `name` that takes the user's arguments, of LLVM types
    `arguments`, and calls the function `body`, whose first parameter is of no use to a kernel.

    Args:
        faults: whether a thread can stop with a fault.
        how: how the code generator wants it.
    """
    kinds = [how.pointer if kind == "ptr" else kind for kind in arguments]
    own = [f"{kind} %{_given(kind, number)}" for number, kind in enumerate(kinds)]
    given = ", ".join([*own, *how.more])
    casts = [
        f"  %a{number} = addrspacecast {kind} %{_given(kind, number)} to ptr"
        for number, kind in enumerate(kinds)
        if "addrspace" in kind
    ]
    passed = ", ".join(
        ["ptr %nothing", *(f"{kind} %a{number}" for number, kind in enumerate(arguments))]
    )
    called = f'@"{body}"'
    lines = [
        f"define {how.word} void @{name}({given}){how.attributes} {{",
        "  %nothing = alloca ptr",
        *casts,
        f"  %code = call i32 {called}({passed})",
    ]
    if faults:
        # Codes above are those of a function's ends.
        lines += [
            "  %some = icmp ne i32 %code, 0",
            f"  %small = icmp ult i32 %code, {FIGURES}",
            "  %failed = and i1 %some, %small",
            "  br i1 %failed, label %tell, label %done",
            "tell:",
            f"  call void @{FAULT}(i32 %code)",
            "  br label %done",
            "done:",
        ]
    lines += ["  ret void", "}"]
    if faults:
        lines.append(f"declare void @{FAULT}(i32)")
    return "\n".join([text, *lines])


def _given(kind: str, number: int) -> str:
    """The name of a parameter; what it is cast to has the plain one."""
    return f"given{number}" if "addrspace" in kind else f"a{number}"
