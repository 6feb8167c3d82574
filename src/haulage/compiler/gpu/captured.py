"""Arrays of the device that a kernel captures: their addresses are numbers in the code."""

import re

_NUMBER = re.compile(r"ptr inttoptr \((i64 -?\d+) to ptr\)")
_ELEMENT = re.compile(
    r"(?m)^  (?P<result>%(?:\"[^\"]*\"|[-\w.$]+)) = (?P<how>getelementptr [^,\n]*?), "
    r"ptr inttoptr \((?P<number>i64 -?\d+) to ptr\), (?P<rest>[^\n]*)$"
)
_ACCESS = re.compile(
    r"(?m)^(?P<before>  (?:\S+ = )?(?:load (?:atomic |volatile )*[^,\n]+, |store "
    r"(?:atomic |volatile )*[^,\n]+, |atomicrmw (?:volatile )?\w+ |cmpxchg (?:weak |volatile )*))"
    r"ptr inttoptr \((?P<number>i64 -?\d+) to ptr\)"
)


def with_global_addresses(text: str) -> str:
    """A module's text in which addresses that are numbers are known to be of global memory."""
    return _NUMBER.sub(
        r"ptr addrspacecast (ptr addrspace(1) inttoptr (\1 to ptr addrspace(1)) to ptr)", text
    )


def with_global_elements(text: str) -> str:
    """A module's text in which addresses of elements of such arrays come from global ones, and
    those that are numbers themselves are global.

    LLVM makes a generic address again of what `with_global_addresses` writes, so for AMD's GPUs,
    where that matters, it has to see each element's before it looks for address spaces.
    """

    def place(number: str) -> str:
        return f"ptr addrspace(1) inttoptr ({number} to ptr addrspace(1))"

    def one(found: re.Match[str]) -> str:
        name = '%"' + found["result"][1:].strip('"') + '.global"'
        return (
            f"  {name} = {found['how']}, {place(found['number'])}, {found['rest']}\n"
            f"  {found['result']} = addrspacecast ptr addrspace(1) {name} to ptr"
        )

    text = _ELEMENT.sub(one, text)
    return _ACCESS.sub(lambda found: f"{found['before']}{place(found['number'])}", text)
