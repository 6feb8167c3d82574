"""The table of the kinds of devices: nobody else knows their names, and others can add to it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import haulage
from haulage.platforms import PLATFORMS, Platform, platform_for

SOURCES = Path(haulage.__file__).parent

# The packages of one kind of device each, which know what they are.
OWN = ("platforms.py", "backends/", "targets/", "compiler/gpu/")
# Where "cpu" is what NumPy's array interface calls the host.
NUMPYS = ("smart/numpy_functions.py", "smart/numpy_methods.py")


def _files():
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if not name.startswith((*OWN, *NUMPYS)):
            yield name, ast.parse(path.read_text())


def _is_name(node):
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(map(_is_name, node.elts))
    return isinstance(node, ast.Constant) and node.value in PLATFORMS


def _asks(node):
    """Whether a piece of code does one thing or another by a kind's name."""
    if isinstance(node, ast.Compare):
        return any(map(_is_name, (node.left, *node.comparators)))
    if isinstance(node, ast.MatchValue):
        return _is_name(node.value)
    if isinstance(node, ast.Subscript):
        return _is_name(node.slice)
    if isinstance(node, ast.Dict):
        return any(key is not None and _is_name(key) for key in node.keys)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr
    return called in ("startswith", "get", "pop") and any(map(_is_name, node.args))


def test_nobody_but_the_table_asks_for_a_kind_of_device_by_name():
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in _files()
        for node in ast.walk(tree)
        if _asks(node)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        'device.kind == "cpu"',
        'device.kind not in ("nvidia", "amd")',
        '{"amd": 1}[kind]',
        'PLATFORMS["nvidia"]',
        'found.get("cpu", ())',
    ],
)
def test_what_counts_as_asking(text):
    assert any(map(_asks, ast.walk(ast.parse(text))))


@pytest.mark.parametrize(("architecture", "kind"), [("host", "cpu"), ("sm_90", "nvidia")])
def test_an_architecture_belongs_to_a_platform(architecture, kind):
    assert platform_for(architecture) is PLATFORMS[kind]


@pytest.mark.parametrize("wrong", ["hostile", "", "avr", 90, None])
def test_other_names_are_refused_with_what_there_is(wrong):
    with pytest.raises(ValueError, match=r"'sm_90' \(NVIDIA's GPUs\).* 'host' \(this computer"):
        platform_for(wrong)


def test_a_platform_that_cannot_run_yet_says_so():
    platform = Platform("abacus", "abaci", looks="")
    with pytest.raises(haulage.errors.Unsupported, match="cannot run on abaci"):
        platform.new_backend()


# ---- from other distributions -------------------------------------------------------------------

ABACUS = """
from haulage.backends.cpu import CPUBackend
from haulage.backends.base import Probe
from haulage.platforms import PLATFORMS, Platform

import dataclasses

class AbacusBackend(CPUBackend):
    name = "abacus"

    @classmethod
    def probe(cls):
        return Probe(True, ("beads",), "on the desk")

platform = dataclasses.replace(
    PLATFORMS["cpu"],
    name="abacus",
    maker="abaci",
    looks="abacus:AbacusBackend.probe",
    backend="abacus:AbacusBackend",
    architectures="",
)
other = 7
"""


def installed(folder, **points):
    """A folder with a distribution of a module `abacus` and of these entry points."""
    (folder / "abacus.py").write_text(ABACUS)
    described = folder / "abacus-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (described / "entry_points.txt").write_text(f"[haulage.platforms]\n{lines}")
    return folder


def run(folder, program, *options, **environment):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


PROGRAM = """
import numpy as np
from haulage import cuda

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

array = cuda.to_device(np.arange(64.0))
double[2, 32](array)
print(array.device, array.copy_to_host().sum())
"""


def test_a_platform_of_another_distribution_is_used_by_its_name(tmp_path):
    folder = installed(tmp_path, abacus="abacus:platform")
    done = run(folder, PROGRAM, HAULAGE_DEVICE="abacus")
    assert (done.returncode, done.stdout, done.stderr) == (0, "abacus:0 4032.0\n", "")


LISTING = """
import numpy as np
import haulage
from haulage import cuda

cuda.to_device(np.ones(3))
print("abacus" in haulage.platforms.PLATFORMS)
print(*haulage.devices())
"""


def test_it_is_looked_for_where_devices_are_listed(tmp_path):
    done = run(installed(tmp_path, abacus="abacus:platform"), LISTING, HAULAGE_DEVICE="cpu")
    looked_for, listed = done.stdout.splitlines()
    assert looked_for == "False"
    assert listed.split()[-2:] == ["cpu:0", "abacus:0"]


def test_what_is_wrong_with_one_is_told_and_stops_nothing(tmp_path):
    folder = installed(
        tmp_path,
        lost="abacus:missing",
        number="abacus:other",
        beads="abacus:platform",
        cpu="haulage.platforms:PLATFORMS",
    )
    done = run(folder, LISTING, HAULAGE_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    assert "abacus:0" not in done.stdout
    told = [line for line in done.stderr.splitlines() if "is left out" in line]
    assert [line.partition("is left out: ")[2] for line in sorted(told)] == [
        "expected a haulage.platforms.Platform named 'beads'",
        "expected a haulage.platforms.Platform named 'cpu'",
        "AttributeError: module 'abacus' has no attribute 'missing'",
        "expected a haulage.platforms.Platform named 'number'",
    ]
