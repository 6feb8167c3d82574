"""The command `haulage cache`."""

from pathlib import Path

import pytest

from haulage import cli
from haulage.disk_cache import store


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def test_it_tells_where_how_many_and_how_much(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder   {place}",
        "entries  0 of at most 10000",
        "bytes    0 of at most 268435456",
    ]
    store.save("a", {}, bytes(1000))
    store.save("b", {}, bytes(1000))
    size = sum(file.stat().st_size for file in place.iterdir())
    assert cli.main(["cache", "show"]) == 0
    assert f"entries  2 of at most 10000\nbytes    {size} of" in capsys.readouterr().out


def test_it_says_why_a_folder_is_not_used(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save("a", {}, b"")
    place.chmod(0o777)
    assert cli.main(["cache"]) == 1
    assert "unused   others can write to it (mode 777)" in capsys.readouterr().out


@pytest.mark.parametrize("link", [True, False])
def test_what_is_no_folder_is_said(
    place: Path, capsys: pytest.CaptureFixture[str], link: bool
) -> None:
    if link:
        place.symlink_to(place.parent / "nowhere")
    else:
        place.write_bytes(b"")
    assert cli.main(["cache"]) == 1
    said = "it is a link to nothing" if link else "it is no folder"
    assert f"unused   {said}" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["show", "clear"])
def test_a_folder_that_cannot_be_read_is_said_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    place.symlink_to(place)
    assert cli.main(["cache", action]) == 2
    said = capsys.readouterr().err
    assert f"{place}: Too many levels of symbolic links" in said
    assert said.count("\n") == 1


def test_clear_throws_all_entries_away_and_nothing_else(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        store.save(name, {}, b"")
    (place / "notes.txt").write_text("mine")
    assert cli.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"2 entries dropped from {place}\n"
    assert [file.name for file in place.iterdir()] == ["notes.txt"]


def test_without_a_home_it_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("HAULAGE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("haulage.config.Path.home", no_home)
    assert cli.main(["cache"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no place for compiled kernels: Could not determine home directory" in said
    assert cli.main(["info", "--verbose"]) == 0
    assert "none: Could not determine home directory" in capsys.readouterr().out
