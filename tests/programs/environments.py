"""A virtual environment for each program, made when it is first run, and its source archive."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from descriptions import HERE, ROOT, Program


class InstallError(Exception):
    """A program could not be installed."""


@dataclass(frozen=True)
class Environment:
    """The Python of a program, and the folder that its tests run in."""

    python: Path
    folder: Path


def prepared(program: Program, cache: Path) -> Environment:
    """The environment of a program below `cache`; made anew where what it holds has changed.

    It holds the program, what its tests need, pytest, and this checkout in editable form.

    Raises:
        InstallError: with what pip printed.
    """
    home = cache.resolve() / program.name
    environment = Environment(home / "venv" / "bin" / "python", home / "here")
    stamp, wanted = home / "installed", _wanted(program)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        environment.folder.mkdir(parents=True)
        _call(sys.executable, "-m", "venv", str(home / "venv"))
        together = [*program.extras, "pytest", "-e", str(ROOT)]
        if program.alone:
            _pip(environment, "install", "--no-compile", "--no-deps", program.requirement)
        else:
            together.insert(0, program.requirement)
        _pip(environment, "install", "--no-compile", *together)
        if program.source == "sdist":
            _unpack(program, environment, home)
        stamp.write_text(wanted, encoding="utf-8")
    # Else pytest would find the settings of Haulage's own tests above.
    (cache / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    if program.source == "package":
        (packages,) = (home / "venv").glob("lib/python*/site-packages")
        return Environment(environment.python, packages)
    if program.source in ("example", "comparison", "laws"):
        shutil.rmtree(environment.folder)
        shutil.copytree(HERE / "examples", environment.folder)
    return environment


def _wanted(program: Program) -> str:
    project = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    contents = [program.requirement, *program.extras, program.source, sys.version, project]
    contents += ["alone"] if program.alone else []
    return json.dumps(contents, indent=1)


def _unpack(program: Program, environment: Environment, home: Path) -> None:
    name = program.requirement.partition("==")[0]
    _pip(
        environment, "download", "--no-deps", "--no-binary", name, "--dest", str(home / "archive"),
        program.requirement,
    )  # fmt: skip
    (archive,) = (home / "archive").iterdir()
    with tarfile.open(archive) as opened:
        # Pythons before 3.11.4 have no such filter and do not ask for one.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(home / "unpacked")
    (top,) = (home / "unpacked").iterdir()
    shutil.rmtree(environment.folder)
    top.rename(environment.folder)


def _pip(environment: Environment, *arguments: str) -> None:
    _call(str(environment.python), "-m", "pip", "--disable-pip-version-check", "-q", *arguments)


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(
            f"{' '.join(command)}\n{done.stdout}{done.stderr}"
            "  A program is installed by pip when it is first run, so a package index has to be in "
            "reach; `pip config list` shows which"
        )
