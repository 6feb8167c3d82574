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

import pytest

from haulage.compiler.simt import passes, pipeline
from haulage.targets.cpu import host
from nodevice.compiler.simt.llvm_models import FILES, kernel_of_file


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
    kernel, block = kernel_of_file(text)
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
