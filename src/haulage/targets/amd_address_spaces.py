"""The front end's LLVM IR has generic addresses only; AMD's code generator wants some to be others.

A thread's own slots lie in private memory, variables of the module in the device's, and constants
in memory that stays as it is. Each gets a generic address where it is made; LLVM finds out itself
what is done with it, and keeps slots in registers as ever.
"""

import re

_NAME = r'(?:"(?:[^"])*"|[-\w.$]+)'
_SLOT = re.compile(
    rf"(?m)^(?P<start> +)%(?P<name>{_NAME}) = alloca (?P<what>(?:[^\n!](?!addrspace\())*?)"
    r"(?P<note>, ![^\n]*)?$"
)
_LIFETIME = re.compile(r"(?m)^ +call void @llvm\.lifetime\.(?:start|end)\.p0\([^\n]*\n")
_VARIABLE = re.compile(
    rf"(?m)^@(?P<name>{_NAME}) = (?P<how>(?:[\w]+ )*?)(?P<what>global|constant) (?P<rest>[^\n]*)$"
)
_SPACES = {"global": 1, "constant": 4}


def with_private_slots(text: str) -> str:
    """A module's text with slots in private memory; the front end's own text too."""
    return _SLOT.sub(_slot, _LIFETIME.sub("", text))


def with_address_spaces(text: str) -> str:
    """A module's text, as LLVM writes it, with slots and variables where they belong."""
    text = with_private_slots(text)
    spaces: dict[str, int] = {}

    def placed(found: re.Match[str]) -> str:
        if found["name"].startswith("llvm."):
            return found[0]
        spaces[found["name"]] = _SPACES[found["what"]]
        return (
            f"@{found['name']} = {found['how']}addrspace({spaces[found['name']]}) "
            f"{found['what']} {found['rest']}"
        )

    text = _VARIABLE.sub(placed, text)
    if not spaces:
        return text
    listed = "|".join(re.escape(name) for name in sorted(spaces, key=len, reverse=True))

    def used(found: re.Match[str]) -> str:
        name = found["name"]
        return f"ptr addrspacecast (ptr addrspace({spaces[name]}) @{name} to ptr)"

    return re.sub(rf"\bptr @(?P<name>{listed})(?![-\w.$])", used, text)


def _slot(found: re.Match[str]) -> str:
    start, name = found["start"], found["name"]
    own = '%"' + name.strip('"') + '.private"'
    note = found["note"] or ""
    return (
        f"{start}{own} = alloca {found['what']}, addrspace(5){note}\n"
        f"{start}%{name} = addrspacecast ptr addrspace(5) {own} to ptr{note}"
    )
