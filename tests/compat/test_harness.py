"""The harness of Numba's tests: each outcome, crashes, hangs, and the counts."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import verdicts
from processes import Outcome

# Each class is one module of tests, run in a process of its own by the real `processes.run`.
PROGRAM = """
import json, os, signal, sys, threading, time, types, unittest
sys.path.insert(0, sys.argv[1])
import processes, tests_of_numba as numbas

class good(unittest.TestCase):
    def test_passes(self): print("said")
    def test_fails(self): self.fail("on purpose")
    def test_skips(self): self.skipTest("not today")
    def test_part_fails(self):
        for number in range(3):
            with self.subTest(number=number): self.assertNotEqual(number, 1)
    @unittest.expectedFailure
    def test_passes_unexpectedly(self): pass
    def test_unwanted(self): pass

class crash(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_c(self): os._exit(3)
    def test_d(self): pass

class hang(unittest.TestCase):
    def test_a(self): time.sleep(60)
    def test_b(self): pass

class set_up(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no room")
    def test_a(self): pass

def module(name, case):
    made = types.ModuleType(f"{numbas.PACKAGE}.{name}")
    case.__module__, made.case = made.__name__, case
    sys.modules[made.__name__] = made

sys.modules[numbas.PACKAGE] = types.ModuleType(numbas.PACKAGE)
names = ["good", "crash", "hang", "set_up"]
for name in names:
    module(name, globals()[name])

found = {}
def ended(module, outcomes):
    for name, outcome in outcomes.items():
        found[name] = (outcome.module, outcome.end, outcome.why)

processes.run(names, lambda name: "unwanted" not in name, 2, 3.0, ended)
print(json.dumps(found))
"""


def test_each_end_of_a_test_is_told_and_a_module_goes_on_after_a_crash_or_a_hang(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ends = {name: end for name, (_, end, _) in found.items()}
    assert ends == {
        "good.good.test_passes": "passed",
        "good.good.test_fails": "failed",
        "good.good.test_skips": "skipped",
        "good.good.test_part_fails": "failed",
        "good.good.test_passes_unexpectedly": "failed",
        "crash.crash.test_a": "passed",
        "crash.crash.test_b": "failed",
        "crash.crash.test_c": "failed",
        "crash.crash.test_d": "passed",
        "hang.hang.test_a": "failed",
        "hang.hang.test_b": "passed",
        "set_up.set_up.test_a": "failed",
    }
    why = {name: why for name, (_, _, why) in found.items()}
    assert "AssertionError: on purpose" in why["good.good.test_fails"]
    assert why["good.good.test_skips"] == "not today"
    assert "(number=1)" in why["good.good.test_part_fails"]
    assert why["good.good.test_passes_unexpectedly"] == "passed, and was expected to fail"
    assert why["crash.crash.test_b"] == "its process was ended by SIGSEGV"
    assert why["crash.crash.test_c"] == "its process ended with exit status 3"
    assert why["hang.hang.test_a"] == "not ended after 3 seconds"
    assert "OSError: no room" in why["set_up.set_up.test_a"]
    assert found["hang.hang.test_b"][0] == "hang"


def test_what_is_listed_is_not_applicable_and_what_skips_itself_has_not_passed():
    ends = {"a": "passed", "b": "failed", "c": "skipped", "d": "failed", "e": "skipped"}
    outcomes = {name: Outcome("module", end, "", 0.0) for name, end in ends.items()}
    counts = verdicts.count(outcomes, {"d": "reason", "e": "reason"})
    assert list(counts) == ["module"]
    of = counts["module"]
    assert (of.passed, of.failed, of.skipped, of.not_applicable) == (
        ["a"],
        ["b"],
        ["c"],
        ["d", "e"],
    )
    assert (of.applicable, of.total) == (3, 5)
    assert of.share == 100 / 3


def test_a_record_that_is_written_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "PASSING", tmp_path / "passing.txt")
    verdicts.record({"b", "a"}, "0.68.1")
    assert verdicts.recorded() == {"a", "b"}
    assert "Numba 0.68.1" in verdicts.PASSING.read_text(encoding="utf-8")


def run(*arguments):
    harness = Path(__file__).parent
    return subprocess.run(
        [sys.executable, str(harness), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_runs_what_is_named_and_writes_the_counts(tmp_path):
    file = tmp_path / "counts.json"
    done = run("cudapy/test_lang.py", "-k", "test_zip", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "cudapy.test_lang" in done.stdout
    counts = json.loads(file.read_text(encoding="utf-8"))
    assert counts["modules"]["cudapy.test_lang"]["passed"] == 1
    assert counts["modules"]["cudapy.test_lang"]["failed"] == []


def test_a_name_of_no_test_is_an_error():
    done = run("cudapy.test_nothing")
    assert done.returncode == 2
    assert "cudapy.test_nothing" in done.stdout
    assert run("cudapy.test_lang.TestLang.test_nothing").returncode == 2
    assert run("--record", "cudapy").returncode == 2
