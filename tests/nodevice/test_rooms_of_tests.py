"""Tests lie where what they test lies: `tests/device` and `tests/nodevice` have the folders of
`src/haulage`, so that the tests of a file are found by its path."""

from pathlib import Path

import haulage

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PACKAGE = Path(haulage.__file__).parent

# Folders beside src whose contents are tested; and those of tests/ that are tested themselves.
BESIDE = {"benchmarks", "docs", "examples", "scripts"}
OF_TESTS = {"codegen", "doubles"}

# Of which files of tests no room is the subject, and what is.
OF_THE_WHOLE = {
    "deleted_folder.py": "programs without a current folder, whatever they call",
    "imports.py": "what importing the package brings along",
    "rooms_of_tests.py": "the tests",
    "warnings.py": "every warning that there is",
}
# Rooms of the package without tests of their own.
WITHOUT = {
    "dask": "tests/neighbours/test_dask_*.py, which need Dask",
    "hip": "another name of roc, in tests/nodevice/cuda/test_completion.py",
}


def misplaced(files, package=PACKAGE, root=ROOT):
    """Those of the files, paths below tests/device or tests/nodevice, that no room of the package
    stands for, nor a file of it."""
    found = []
    for file in files:
        first, subject = file.parts[0], file.name.removeprefix("test_")
        if file.name == first:
            is_there = subject in OF_THE_WHOLE or any(
                (folder / subject).is_file() for folder in (package, root / "tests")
            )
        elif first in BESIDE:
            is_there = (root / file.parent).is_dir()
        elif first in OF_TESTS:
            is_there = (root / "tests" / file.parent).is_dir()
        else:
            is_there = _is_room(package / file.parent)
        if not is_there:
            found.append(str(file))
    return found


def _is_room(folder):
    # A folder whose files were deleted may still hold what Python compiled of them.
    return (folder / "__init__.py").is_file()


def files_of_tests():
    return [
        file.relative_to(TESTS / part)
        for part in ("device", "nodevice")
        for file in sorted((TESTS / part).rglob("test_*.py"))
    ]


def rooms(folder):
    return [each.name for each in sorted(folder.iterdir()) if _is_room(each)]


def test_each_folder_of_tests_is_one_of_the_package():
    files = files_of_tests()
    assert len(files) > 250
    assert misplaced(files) == []


def test_each_room_of_the_package_and_of_its_runtime_has_tests():
    there = {str(parent) for file in files_of_tests() for parent in file.parents}
    wanted = [*rooms(PACKAGE), *(f"runtime/{room}" for room in rooms(PACKAGE / "runtime"))]
    assert [room for room in wanted if room not in there and room not in WITHOUT] == []
    assert [room for room in WITHOUT if room in there or room not in wanted] == []


def test_a_file_that_stands_elsewhere_is_named(tmp_path):
    package = tmp_path / "src"
    (package / "runtime" / "memory").mkdir(parents=True)
    (package / "runtime" / "memory" / "__init__.py").touch()
    (package / "runtime" / "launching" / "__pycache__").mkdir(parents=True)
    (package / "forks.py").touch()
    (tmp_path / "docs").mkdir()
    files = map(
        Path,
        [
            *("runtime/memory/test_pool.py", "runtime/launching/test_launch.py", "test_forks.py"),
            *("test_array.py", "docs/test_readme.py", "scripts/test_gpu_check.py"),
        ],
    )
    assert misplaced(files, package, tmp_path) == [
        "runtime/launching/test_launch.py",
        "test_array.py",
        "scripts/test_gpu_check.py",
    ]
