"""The passes of the CPU compiler: declared once, run in that order, switched off by name."""

import re
from pathlib import Path

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt import passes, pipeline

ROOT = Path(__file__).parents[4]
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


def test_each_pass_is_declared_once_with_its_folder_and_its_source():
    names = [each.name for each in passes.PASSES]
    assert len(set(names)) == len(names)
    folders = {"analysis", "loops", "regions", "vectorize", "work_items", "coroutines"}
    for each in passes.PASSES:
        assert each.stage in folders
        assert each.source
        assert re.fullmatch(r"[A-Z].*\.", each.summary)


def test_all_that_runs_is_declared():
    assert pipeline._RUN.keys() <= {each.name for each in passes.PASSES}


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
    text = (ROOT / "docs" / "blocks-on-the-cpu.md").read_text()
    headings = re.findall(r"(?m)^### (\S+)$", text)
    assert headings == [each.name for each in passes.PASSES]
    picture = text.split("```text", 1)[1].split("```", 1)[0]
    assert [name for name in headings if name not in picture] == []
    required = {each.name for each in passes.PASSES if each.required}
    assert set(re.findall(r"### (\S+)\n\n\*Required\.\*", text)) == required
