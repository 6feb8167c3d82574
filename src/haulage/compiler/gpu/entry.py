"""The function that a launch starts: it calls the kernel's body and tells of its thread's fault."""

import re

from haulage.compiler.faults import FIGURES
from haulage.compiler.gpu.channel import FAULT
from haulage.compiler.linked import DECLARED
from haulage.targets.nvidia_math import NAMES

# What is something else in PTX, or in the module: the functions of mathematics too, see `NAMES`.
_RESERVED = ("WARP_SZ", "_")
_OTHERS = ("__nv", "haulage_", "llvm")
_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)


def entry_name(name: str, text: str) -> str:
    """The name that profilers show of a Python function's kernel; PTX takes letters, digits and
    underscores. `text` is that of its module."""
    plain = _NOT_IN_NAMES.sub("_", name.rpartition(".")[2])
    taken = plain in NAMES or plain in _RESERVED or plain.startswith(_OTHERS)
    called = re.search(rf"\b{DECLARED}{plain}\b", text) is not None
    return f"kernel_{plain}" if taken or called or plain[:1].isdigit() else plain


def with_entry(text: str, body: str, name: str, arguments: tuple[str, ...], faults: bool) -> str:
    """The module of `text` with a kernel `name` that takes the user's arguments, of LLVM types
    `arguments`, and calls the function `body`, whose first parameter is of no use to a kernel.

    Args:
        faults: whether a thread can stop with a fault.
    """
    given = ", ".join(f"{kind} %a{number}" for number, kind in enumerate(arguments))
    passed = ", ".join(
        ["ptr %nothing", *(f"{kind} %a{number}" for number, kind in enumerate(arguments))]
    )
    called = f'@"{body}"'
    lines = [
        f"define ptx_kernel void @{name}({given}) {{",
        "  %nothing = alloca ptr",
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
