"""The command line: what it answers, and how it says no."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from haulage import __version__, cli
from haulage.backends.base import Probe
from haulage.cli import demo, info
from haulage.compiler.gpu.amd import device_library
from haulage.platforms import PLATFORMS


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that ends with status 2."""
    assert cli.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "Traceback" not in lines[0]
    return lines[0]


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"haulage {__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["demmo"], "demo"), (["benhc", "saxpy"], "bench"), (["cache", "shwo"], "show")],
)
def test_a_command_that_is_nearly_one(
    capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith(f". Did you mean {meant!r}?\n")


@pytest.mark.parametrize("command", [[], ["info"], ["demo"]])
def test_help_describes_each_command(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command, "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {' '.join(['haulage', *command])} [-h]")


def test_python_m_haulage_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "haulage", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"haulage {__version__}\n"


def test_info_shows_devices_reasons_versions_and_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HAULAGE_NUM_THREADS", "3")
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("HAULAGE_DEVICE", "cpu")
    assert cli.main(["info", "--verbose"]) == 0
    lines = {}
    for line in capsys.readouterr().out.splitlines():
        name, _, text = line.strip().partition("  ")
        lines.setdefault(name, []).append(text.strip())
    assert set(lines) >= {"devices", "in force", "versions", "settings", "numba", "llvmlite"}
    assert "HAULAGE_DEVICE=cpu" in lines["cpu:0"][-1]
    assert lines["haulage"][0].startswith(__version__)
    assert lines["worker threads"][0].startswith("3 ")
    assert lines["cache folder"][0] == f"{tmp_path / 'kernels'} (not made yet)"
    for kind in ("nvidia", "amd"):
        present = any(name.startswith(f"{kind}:") for name in lines)
        assert present or "not found; looked for" in lines[kind][0]


@pytest.mark.parametrize(
    ("find", "words"),
    [
        (lambda: Path("/opt/rocm/amdgcn/bitcode/ocml.bc"), "/opt/rocm/amdgcn/bitcode/ocml.bc"),
        (
            lambda: None,
            "not found: gamma, lgamma and .* rocm-device-libs have: install one of them",
        ),
    ],
)
def test_info_says_where_amds_library_of_mathematics_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, find: Any, words: str
) -> None:
    monkeypatch.setattr(device_library, "find", find)
    cli.main(["info", "--verbose"])
    assert re.search(f"(?m)^  ocml.bc +{words}", capsys.readouterr().out)


def test_info_counts_what_the_cache_folder_holds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path))
    (tmp_path / "one").write_bytes(bytes(1_500_000))
    cli.main(["info", "-v"])
    assert f"{tmp_path} (1 files, 1.5 MB)" in capsys.readouterr().out


def test_info_tells_each_device_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAULAGE_DEVICE", "cpu")
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "devices"
    devices = lines[1 : lines.index("in force")]
    for kind in ("nvidia", "amd"):
        (line,) = [line for line in devices if line.split()[0].split(":")[0] == kind]
        assert ":" in line.split()[0] or line.split()[1:3] == ["not", "present:"]
    assert devices[-1].split()[0] == "cpu:0"
    assert max(map(len, lines)) <= 100
    assert "lib" not in out
    assert "/" not in out
    assert lines[-1].startswith("haulage info --verbose")


def test_the_reason_why_a_device_is_not_there_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        info, "probe_of", lambda kind: Probe(False, ("a", "b"), "a long story", "no driver")
    )
    facts = info._devices(PLATFORMS["amd"], verbose=False)
    assert [(fact.name, fact.text) for fact in facts] == [("amd", "not present: no driver")]
    facts = info._devices(PLATFORMS["amd"], verbose=True)
    assert facts[0].text == "not found; looked for a, b: a long story"


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("usage: haulage [-h]")
    for command in ("info", "demo", "run", "check", "trace", "advise", "bench", "cache"):
        assert f"\n    {command} " in captured.out
    assert captured.err == ""


def test_info_says_why_the_device_that_is_asked_for_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAULAGE_DEVICE", "toaster")
    assert cli.main(["info"]) == 1
    out = capsys.readouterr().out
    assert "HAULAGE_DEVICE 'toaster'" in out
    assert "cpu:0" in out


def test_info_imports_neither_numba_nor_llvmlite() -> None:
    program = (
        "import sys; from haulage.cli import main; main(['info']);"
        "sys.exit(any(m in sys.modules for m in ('numba', 'llvmlite', 'matplotlib')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_a_wrong_number_of_threads_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAULAGE_NUM_THREADS", "many")
    assert "HAULAGE_NUM_THREADS='many'" in _refused(capsys, "info")


def test_demo_with_an_unknown_device_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = _refused(capsys, "demo", "--device", "toaster")
    assert "--device 'toaster'" in line
    assert "cpu" in line


def test_demo_with_a_missing_file_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "holiday.jpg")
    assert _refused(capsys, "demo", missing) == f"haulage: no such photo: {missing}"


def test_demo_with_a_folder_as_photo_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "is a folder" in _refused(capsys, "demo", str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"Dear diary,\n", b"\x89PNG\r\n\x1a\n"])
def test_demo_with_a_file_that_is_no_picture_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "diary.jpg"
    file.write_bytes(content)
    assert f"{file} is not a picture" in _refused(capsys, "demo", str(file))


def test_demo_with_a_broken_picture_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "half.png"
    Image.effect_noise((64, 64), 50).save(file)
    file.write_bytes(file.read_bytes()[:900])
    assert f"{file} cannot be read as a picture" in _refused(capsys, "demo", str(file))


def test_demo_with_an_unwritable_folder_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file, so no folder")
    line = _refused(capsys, "demo", "--out", str(tmp_path / "taken" / "here"))
    assert f"cannot write to {tmp_path / 'taken' / 'here'}" in line


def test_demo_without_its_packages_gives_the_pip_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "PIL" else object())
    line = _refused(capsys, "demo")
    assert "Pillow" in line
    assert "SciPy" not in line
    assert line.endswith("pip install '.[demo]' in the checkout of Haulage")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", "import haulage.cli, sys; sys.exit(haulage.cli.main(['info']))"],
        stdout=open_closed_pipe(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (141, "")


def open_closed_pipe():
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_bad_settings_are_one_line_each(monkeypatch, capsys):
    for name in ("HAULAGE_CPU_THREADS", "HAULAGE_NUM_THREADS"):
        monkeypatch.setenv(name, "sideways")
        assert cli.main(["info"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert name in told
        monkeypatch.delenv(name)
