"""The passes of the CPU compiler: declared once, run in that order, switched off by name."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import haulage
from doubles.kernels import row_sums
from haulage import cuda
from haulage.compiler.simt import passes, pipeline
from haulage.compiler.simt.analysis.control_flow import Graph
from haulage.compiler.simt.analysis.manager import Analyses, Kept
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.cpu import host
from nodevice.compiler.simt.llvm_models import FILES, kernel_of_file

PAGE = Path(__file__).parents[4] / "docs" / "blocks-on-the-cpu.md"
SIGNATURE = "void(float32[::1], float32[::1])"


def tree(x, out):
    tile = cuda.shared.array(64, np.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i] if i < x.size else 0
    d = 32
    while d > 0:
        cuda.syncthreads()
        if t < d:
            tile[t] += tile[t + d]
        d //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


def test_each_pass_is_declared_once_with_what_it_does_and_its_source():
    names = [each.name for each in passes.PASSES]
    assert len(set(names)) == len(names)
    for each in passes.PASSES:
        assert each.source
        assert re.fullmatch(r"[A-Z].*\.", each.summary)


def test_stages_have_the_kernel_after_each_pass_in_the_order_of_the_list():
    stages = haulage.compile(tree, SIGNATURE, block=64).stages
    names = [name for name in stages if name not in ("lowered", "clean", "blocks", "llvm")]
    declared = [each.name for each in passes.PASSES]
    assert names == [name for name in declared if name in names]
    assert "a region ends (barrier)" in stages["region-fission"]
    assert "a region ends" not in stages["loop-interchange"]
    assert "haulage.region.0" in stages["work-item-loops"]


def test_a_pass_that_is_switched_off_does_not_run(monkeypatch):
    usual = haulage.compile(tree, SIGNATURE, block=64)
    monkeypatch.setenv("HAULAGE_CPU_PASSES", "-guard-fission, -iteration-ranges")
    other = haulage.compile(tree, SIGNATURE, block=64)
    assert "iteration-ranges" in usual.stages
    assert "iteration-ranges" not in other.stages
    assert usual.llvm != other.llvm


def strided(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] + 1


def scattered(x, out):
    room = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    room[2 * t] = x[t]
    room[2 * t + 1] = x[t + 64]
    cuda.syncthreads()
    room[(2 * t * 5) % 128] += 1
    cuda.syncthreads()
    out[t] = room[t] + x[t // out.size]


def newton(x, out):
    i = cuda.grid(1)
    if i < x.size:
        y = x[i]
        while abs(y * y - x[i]) > np.float32(1e-6) * x[i]:
            y = np.float32(0.5) * (y + x[i] / y)
        out[i] = y


def roots(x, out):
    i = cuda.grid(1)
    room = cuda.shared.array(64, np.float32)
    room[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    y = room[63 - cuda.threadIdx.x]
    while y > 1:
        y = np.float32(0.5) * y
    cuda.atomic.add(room, i % 7, math.sqrt(y) * x[i] + math.sqrt(x[i] + 1))
    cuda.syncthreads()
    out[i] = room[cuda.threadIdx.x]


def plane(x, out):
    i, j = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i, j - 1]
    elif i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j]


def tile_sums(x, out):
    room = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    total = np.float32(0)
    for k in range(64):
        total += room[k] * x[t] - x[t] / room[k]
    out[t] = total


LINE, PLANE = SIGNATURE, "void(float32[:, ::1], float32[:, ::1])"
CASES = [
    *((each, LINE, (64, 1, 1)) for each in (tree, strided, scattered, newton, roots)),
    (tile_sums, LINE, (64, 1, 1)),
    (plane, PLANE, (16, 16, 1)),
    (row_sums, "void(float32[:, ::1], float32[::1])", (64, 1, 1)),
]


def test_every_pass_that_can_be_switched_off_makes_a_difference_somewhere():
    """No name is accepted and ignored."""
    target = host()
    cleaned = [
        (haulage.compile(kernel, kinds, block=block).stages["clean"], block)
        for kernel, kinds, block in CASES
    ]

    def made(*off):
        return [
            pipeline.transform(text, target, block, "auto", off=frozenset(off)).llvm
            for text, block in cleaned
        ]

    usual = made()
    assert made() == usual
    assert [name for name in passes.optional() if made(name) == usual] == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("guard-fission", "'guard-fission' is not '-' and the name of a pass, which are"),
        ("-nothing", "'-nothing' is not '-' and the name of a pass"),
        ("-region-fission", "region-fission is required"),
    ],
)
def test_what_cannot_be_switched_off_is_refused(setting, said, monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_PASSES", setting)
    with pytest.raises(ValueError, match=re.escape(said)):
        haulage.compile(tree, SIGNATURE, block=64)


def test_the_page_is_ordered_by_the_list_and_its_picture_has_all_passes():
    text = PAGE.read_text()
    headings = re.findall(r"(?m)^### (\S+)$", text)
    assert headings == [each.name for each in passes.PASSES]
    picture = text.split("```text", 1)[1].split("```", 1)[0]
    assert [name for name in headings if name not in picture] == []
    required = {each.name for each in passes.PASSES if each.required}
    assert set(re.findall(r"### (\S+)\n\n\*Required\.\*", text)) == required


def kernels():
    """The kernels of these tests and of the files of passes: text and block."""
    for kernel, kinds, block in CASES:
        yield haulage.compile(kernel, kinds, block=block).stages["clean"], block
    for path in sorted(FILES.glob("*.ll")):
        yield kernel_of_file(path.read_text())


def name_of(analysis):
    """As the page names an analysis."""
    return f"{analysis.__module__.rpartition('.')[2]}.{analysis.__name__}"


def test_a_pass_asks_for_the_analyses_that_it_declares_and_no_others(monkeypatch):
    declared = {each.name: {*map(name_of, each.needs)} for each in passes.PASSES if each.run}
    asked = {name: set() for name in declared}
    # The pass that runs, if any, and above it the analyses that do.
    running = []

    def noted(analysis, find):
        if len(running) == 1:
            asked[running[0]].add(name_of(analysis))
        running.append(analysis) if running else None
        try:
            return find()
        finally:
            running.pop() if running else None

    def watched(each):
        def run(state):
            running.append(each.name)
            try:
                return each.run(state)
            finally:
                running.pop()

        return replace(each, run=each.run and run)

    get = Analyses.get
    monkeypatch.setattr(
        Analyses,
        "get",
        lambda self, analysis, *args, **kwargs: noted(
            analysis, lambda: get(self, analysis, *args, **kwargs)
        ),
    )
    for name in ("dominators", "postdominators", "loops"):
        find = vars(Graph)[name].__get__
        fact = property(lambda self, find=find: noted(Graph, lambda: find(self)))
        monkeypatch.setattr(Analyses, name, fact, raising=False)
    monkeypatch.setattr(passes, "PASSES", tuple(map(watched, passes.PASSES)))
    for text, block in kernels():
        pipeline.transform(text, host(), block, "auto")
    assert asked == declared


def test_what_a_pass_keeps_is_what_is_found_in_the_function_that_it_leaves(monkeypatch):
    changing = {}

    def watched(each):
        def run(state):
            function, before = state.function, definition(state.function)
            changed = each.run(state)
            if changed:
                changing[each.name] = each.keeps
            else:
                assert state.function is function
                assert definition(function) == before
            return changed

        return replace(each, run=each.run and run)

    invalidate = Analyses.invalidate

    def checked(self, kept):
        invalidate(self, kept)
        fresh = Analyses(self.function)
        for name in self.__dict__.keys() - vars(fresh).keys():
            assert kept is Kept.GRAPH
            assert getattr(self, name) == getattr(fresh, name)
        assert self.successors == fresh.successors

    monkeypatch.setattr(Analyses, "invalidate", checked)
    monkeypatch.setattr(passes, "PASSES", tuple(map(watched, passes.PASSES)))
    for text, block in kernels():
        pipeline.transform(text, host(), block, "auto")
    keeping = {each.name: each.keeps for each in passes.PASSES if each.keeps is not Kept.ALL}
    assert changing == keeping


def test_the_page_has_what_each_pass_needs_and_keeps():
    sections = re.split(r"(?m)^### (\S+)$", PAGE.read_text())
    said = dict(zip(sections[1::2], sections[2::2], strict=True))
    for each in passes.PASSES:
        if each.run:
            needs = ", ".join(f"`{name_of(one)}`" for one in each.needs) or "no analysis"
            line = f"*Needs* {needs}; *keeps* {each.keeps.value}."
            assert line in said[each.name].replace("\n", " "), line
