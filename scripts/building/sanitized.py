"""Run tests with the extension under sanitizers: `python scripts/building/sanitized.py KIND`.

KIND is `address`, which is AddressSanitizer with UBSan, or `thread`, ThreadSanitizer. The extension
is built in a copy of the checkout, `build/sanitized-KIND`, by a compiler that has them (GCC or
Clang, by `CC`). What comes behind KIND goes to pytest, in the place of `TESTS`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "tests", "scripts", "benchmarks", "docs", "examples")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
# Those of the extension, and of what uses each of its modules from Python. The pool's program in C
# is run by `make sanitize` itself.
TESTS = (
    "tests/nodevice/_core",
    "--ignore=tests/nodevice/_core/test_pool.py",
    "tests/device/runtime/memory",
    "tests/device/runtime/launch",
    "tests/device/runtime/arrays/test_new_arrays.py",
)

# The stand-in for a driver has memory where ThreadSanitizer has its own.
MORE = {"address": ("tests/nodevice/backends/nvidia_driver/test_launches.py",), "thread": ()}

# What a sanitizer says as it ends the process is shown. By Hypothesis's profile for CI it is
# no failure that making examples takes long.
PYTEST = ("-q", "-p", "no:cacheprovider", "--capture=sys", "--hypothesis-profile=ci")

FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "thread": "-fsanitize=thread",
}
# Loaded before Python, which is not built with them. Of LLVM's exceptions they know if the C++
# library is there as soon.
LIBRARIES = {
    "address": ("libasan.so", "libubsan.so", "libstdc++.so.6"),
    "thread": ("libtsan.so", "libstdc++.so.6"),
}
# Python gives back little at its end, and the handlers of crashes are what is tested. Handlers of
# Python's signals run inside of kernels where that is safe, which no sanitizer can know.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:handle_sigbus=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "report_signal_unsafe=0:handle_segv=0:handle_sigbus=0:die_after_fork=0",
}


def library(compiler: str, name: str) -> str:
    """Where the compiler has a library.

    Raises:
        SystemExit: it has none.
    """
    command = [*compiler.split(), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(found):
        raise SystemExit(f"{compiler} has no {name}: install the libraries of its sanitizers")
    return found


def copied(kind: str) -> Path:
    """A copy of the checkout without what is built; what was built in it before stays."""
    copy = ROOT / "build" / f"sanitized-{kind}"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in COPIED:
        for file in (copy / name).rglob("*"):
            if file.is_file() and file.suffix != ".so":
                file.unlink()
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, dirs_exist_ok=True)
    for file in FILES:
        shutil.copy2(ROOT / file, copy)
    return copy


def main(kind: str, *tests: str) -> int:
    """Build and test; pytest's status."""
    compiler = os.environ.get("CC", "cc")
    preloaded = " ".join(library(compiler, name) for name in LIBRARIES[kind])
    copy = copied(kind)
    flags = f"{FLAGS[kind]} -fno-omit-frame-pointer"
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=copy,
        env={**os.environ, "CC": compiler, "CFLAGS": flags, "LDFLAGS": flags},
        check=True,
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PYTEST, *(tests or (*TESTS, *MORE[kind]))],
        cwd=copy,
        env={
            **os.environ,
            **OPTIONS,
            "LD_PRELOAD": preloaded,
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(copy / "src"),
        },
        check=False,
    ).returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in ([kind] for kind in FLAGS):
        raise SystemExit(__doc__)
    raise SystemExit(main(*sys.argv[1:]))
