"""Each pass on a small kernel: what stands in the text before it and after it.

Every pass has a file `passes/NAME.ll` in the manner of LLVM's own tests. In it INDICES stands for
the parameters that all kernels have, `ARRAY x` for those of an array, and comments say what is
expected:

    ; BLOCK: 16, 16              the size of a block
    ; OFF: NAME                  a pass that does not run
    ; STAGE: NAME                compare what the kernel is at first with what it is after a pass
    ; STAGE: blocks              compare the modules that are made without the pass and with it
    ; BEFORE: text               the texts that stand before the pass, in this order
    ; AFTER: text                and after it
    ; BEFORE-NOT: text           what does not stand there, nor, with AFTER-NOT, after it

Without a STAGE it is the kernel right before the pass, and right after it.
"""

import re
from pathlib import Path

import pytest

from haulage.compiler import llvm
from haulage.compiler.simt import passes, pipeline
from haulage.targets.cpu import host

FILES = Path(__file__).with_name("passes")

_LIMITS = {
    "threadIdx": ((0, 1024),) * 3,
    "blockIdx": ((0, 2147483647), (0, 65535), (0, 65535)),
    "blockDim": ((1, 1025),) * 3,
    "gridDim": ((1, 2147483647), (1, 65536), (1, 65536)),
}
INDICES = ", ".join(
    [
        "ptr %.ret",
        *(
            f"i32 range(i32 {least}, {end}) %{name}.{axis}"
            for name, limits in _LIMITS.items()
            for axis, (least, end) in zip("xyz", limits, strict=True)
        ),
        "ptr %dynamicShared, i64 %dynamicSharedBytes",
    ]
)
ARRAY = (
    r"ptr %arg.\1.0, ptr %arg.\1.1, i64 %arg.\1.2, i64 %arg.\1.3, ptr %arg.\1.4, "
    r"i64 %arg.\1.5.0, i64 %arg.\1.6.0"
)


def test_every_pass_has_a_kernel():
    assert {path.stem for path in FILES.glob("*.ll")} == {each.name for each in passes.PASSES}


@pytest.mark.parametrize("name", [each.name for each in passes.PASSES])
def test_a_pass_does_to_a_small_kernel_what_its_file_says(name):
    text = (FILES / f"{name}.ll").read_text()
    comments = dict.fromkeys(("BEFORE", "AFTER"), ())
    for which, unwanted, line in re.findall(r"(?m)^; (BEFORE|AFTER)(-NOT)?: (.+)$", text):
        comments[which] += ((line, bool(unwanted)),)
    assert comments["AFTER"]
    before, after = _stages(name, text)
    assert _missed(before, comments["BEFORE"]) is None
    assert _missed(after, comments["AFTER"]) is None
    # It is the pass that does it.
    assert _missed(before, comments["AFTER"]) is not None


def _missed(text, expected):
    """What of the expected lines the text does not have, or has though it should not; or None."""
    at = 0
    for line, unwanted in expected:
        if unwanted:
            if line in text:
                return f"{line!r} stands in\n{text}"
            continue
        found = text.find(line, at)
        if found < 0:
            return f"{line!r} is not behind\n{text[:at]}\n-----\n{text[at:]}"
        at = found + len(line)
    return None


def _stages(name, text):
    """What stands there before the pass and after it."""
    kernel = re.sub(r"(?m)^;.*\n", "", text).replace("INDICES", INDICES)
    kernel = str(llvm.parse(re.sub(r"\bARRAY (\w+)", ARRAY, kernel)))
    sizes = re.search(r"(?m)^; BLOCK: (.+)$", text)[1].split(",")
    block = tuple(map(int, [*sizes, 1, 1][:3]))
    stage = re.search(r"(?m)^; STAGE: (\S+)$", text)
    others = re.findall(r"(?m)^; OFF: (\S+)$", text)

    def module(*off, recorded=None):
        made = pipeline.transform(
            kernel, host(), block, "auto", off=frozenset((*others, *off)), recorded=recorded
        )
        return made.llvm

    recorded = {}
    made = module(recorded=recorded)
    if stage and stage[1] == "blocks":
        return module(name), made
    if stage:
        return kernel, recorded[stage[1]]
    names = list(recorded)
    place = names.index(name)
    return recorded[names[place - 1]] if place else kernel, recorded[name]
