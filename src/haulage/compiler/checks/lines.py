"""What LLVM's debug metadata says of a module: the source line of each location, and which array is
accessed there."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from haulage.compiler.checks.names import NAMES
from haulage.compiler.simt.ir.model import Instruction

_NODE = re.compile(r"(?m)^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_FIELD = re.compile(r'(\w+): ("[^"]*"|!?[-\w.]+)')
_RECORDS = re.compile(r"(?m)^ +#dbg_\w+\(.*\n")
_ATTACHED = re.compile(r",? !dbg !\d+")


class Location(NamedTuple):
    """A line of the source, and the name of the array that is accessed there, or nothing."""

    file: str
    line: int
    array: str


NOWHERE = Location("", 0, "")


def locations(text: str) -> dict[str, Location]:
    """Those of a module's text, by the numbers of their nodes."""
    nodes: dict[str, tuple[str, dict[str, str]]] = {
        number: (kind, dict(_FIELD.findall(fields))) for number, kind, fields in _NODE.findall(text)
    }

    def file_of(scope: str) -> str:
        while scope in nodes:
            kind, fields = nodes[scope]
            if kind == "DIFile":
                return os.path.join(fields["directory"].strip('"'), fields["filename"].strip('"'))
            scope = fields.get("file", fields.get("scope", "!")).removeprefix("!")
        return ""

    return {
        number: Location(
            file_of(fields["scope"].removeprefix("!")),
            int(fields.get("line", 0)),
            NAMES.of(int(fields.get("column", 0))),
        )
        for number, (kind, fields) in nodes.items()
        if kind == "DILocation"
    }


def location_of(item: Instruction, of: Mapping[str, Location]) -> Location:
    """That of an instruction; of those without one an empty one."""
    node = next((node for kind, node in item.metadata if kind == "dbg"), "")
    return of.get(node.removeprefix("!"), NOWHERE)


def without_records(text: str) -> str:
    """The module's text without what debuggers are told of variables."""
    return _RECORDS.sub("", text)


def without_locations(text: str) -> str:
    """The module's text without anything that refers to the source."""
    return re.sub(r"(?m)^!llvm\.dbg\.cu = .*\n", "", _ATTACHED.sub("", without_records(text)))
