"""Compiled code as facts that JSON can say, and back."""

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.compiler import faults, prints
from haulage.compiler.cache.values import Digest, NotByValue
from haulage.compiler.code import Code
from haulage.compiler.faults import Fault
from haulage.compiler.prints import Items

_CONSTANTS = (str, int, float, bool, type(None))


def facts_of(code: Code, reached: Digest) -> dict[str, Any]:
    """What a file says of `code`, whose functions are in `reached`.

    Raises:
        NotByValue: its threads raise something that another process could not find.
    """
    return {
        "metadata": code.metadata,
        "code_bytes": len(code.code),
        "faults": [_fault_facts(*item, reached) for item in code.faults.items()],
        "prints": [
            [number, [item if isinstance(item, str) else [item.str] for item in items]]
            for number, items in code.prints.items()
        ],
    }


def data_of(code: Code) -> bytes:
    """The bytes of a file: the code's, and behind them those of its machine code."""
    return code.code + (code.machine_code or b"")


def code_of(
    facts: dict[str, Any], data: bytes, name: str, reached: Digest, again: Callable[[], Code]
) -> Code | None:
    """The code of a file, for the kernel called `name` whose functions are in `reached`; `data` is
    what `data_of` gave.

    `again` compiles it, for its texts. None if its numbers for faults or prints belong to others in
    this process.
    """
    found = dict(_fault(item, reached) for item in facts["faults"])
    calls: dict[int, Items] = {
        number: tuple(item if isinstance(item, str) else np.dtype(item[0]) for item in items)
        for number, items in facts["prints"]
    }
    if not (faults.TABLE.claim(found) and prints.TABLE.claim(calls)):
        return None
    metadata = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in facts["metadata"].items()
    }
    metadata["name"] = name
    code, machine_code = data[: facts["code_bytes"]], data[facts["code_bytes"] :] or None
    return Code(code, metadata, found, calls, lambda: again().texts(), machine_code=machine_code)


def _fault_facts(number: int, fault: Fault, reached: Digest) -> list[Any]:
    where: str | int = fault.filename
    if fault.filename in reached.files:
        where = reached.files.index(fault.filename)
    kind = None
    if fault.exception is not None:
        kind = [fault.exception.__module__, fault.exception.__qualname__]
        if _exception(kind, reached) is not fault.exception:
            raise NotByValue(
                f"it raises {fault.exception.__qualname__}, which was not reached by name"
            )
        if not all(isinstance(argument, _CONSTANTS) for argument in fault.arguments):
            raise NotByValue(
                f"{fault.exception.__qualname__}{fault.arguments} has no plain arguments"
            )
    return [
        number,
        kind,
        list(fault.arguments),
        where,
        fault.line,
        fault.wave,
        fault.warp,
        fault.grid,
        fault.figures,
        fault.function,
    ]


def _fault(facts: list[Any], reached: Digest) -> tuple[int, Fault]:
    number, kind, arguments, where, line, *rest = facts
    filename = reached.files[where] if isinstance(where, int) else where
    exception = None if kind is None else _exception(kind, reached)
    return number, Fault(exception, tuple(arguments), filename, line, *rest)


def _exception(name: list[str], reached: Digest) -> type[BaseException] | None:
    module, qualified = name
    if module == "builtins":
        found: type[BaseException] | None = getattr(builtins, qualified, None)
        return found
    return reached.exceptions.get((module, qualified))
