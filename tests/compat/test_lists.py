"""The lists of Numba's tests: what is not applicable, and what is recorded as passing."""

import re
import tomllib
from pathlib import Path

import pytest
import tests_of_numba as numbas
import verdicts

ROOT = Path(__file__).parents[2]
REASONS = {
    "text": "reads PTX, NVVM or SASS text",
    "toolchain": "needs NVIDIA's linker or toolchain",
    "handles": "needs handles of NVIDIA's driver",
    "interface": "needs the CUDA array interface, which is NVIDIA's alone",
    "superseded": "superseded: Haulage does more, by a test of its own",
}
SECTIONS = tomllib.loads(verdicts.NOT_APPLICABLE.read_text(encoding="utf-8"))


def test_the_reasons_are_these_and_no_others():
    assert {key: section["reason"] for key, section in SECTIONS.items()} == REASONS


def test_each_test_has_one_reason():
    names = [name for section in SECTIONS.values() for name in section["tests"]]
    assert len(names) == len(set(names)) == len(verdicts.not_applicable())


def test_what_is_not_applicable_is_a_test_of_numbas():
    # These are made in a loop over the functions of libdevice.
    made = "cudapy.test_libdevice.TestLibdeviceCompilation.test___nv_"
    names = {name for name in verdicts.not_applicable() if not name.startswith(made)}
    modules = {".".join(name.split(".")[:2]) for name in names}
    written = {name for module in modules for name in numbas.written_in(module)}
    assert names - written == set()


@pytest.mark.parametrize("name", verdicts.own_tests())
def test_a_superseded_test_names_one_of_ours(name):
    own = verdicts.own_tests()[name]
    file, _, function = own.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^ *def {function}\(", text, re.MULTILINE), f"there is no {own}"


def test_the_record_is_sorted_and_has_nothing_that_is_not_applicable():
    lines = verdicts.PASSING.read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert names == sorted(set(names))
    assert verdicts.recorded() == set(names)
    assert verdicts.recorded() & set(verdicts.not_applicable()) == set()
