"""Files of the disk cache: what is trusted, what is whole, what is dropped."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage.disk_cache import entry, folder, store
from haulage.disk_cache.folder import Folder
from haulage.errors import CacheWarning

FACTS = {"name": "saxpy", "block": [256, 1, 1], "text": "a\n\u00e9"}
CODE = bytes(range(256)) * 3
WHOLE = entry.pack(FACTS, CODE)


@pytest.fixture(autouse=True)
def said_nothing_yet(monkeypatch):
    monkeypatch.setattr(folder, "_warned", set())


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def test_a_file_gives_back_what_was_packed():
    assert entry.unpack(WHOLE) == (FACTS, CODE)
    assert entry.unpack(entry.pack({}, b"")) == ({}, b"")


@given(st.integers(0, len(WHOLE) - 1))
def test_a_torn_file_is_no_entry(length):
    assert entry.unpack(WHOLE[:length]) is None


@given(st.integers(0, 8 * len(WHOLE) - 1))
def test_a_flipped_bit_is_found(bit):
    garbled = bytearray(WHOLE)
    garbled[bit // 8] ^= 1 << bit % 8
    assert entry.unpack(bytes(garbled)) is None


@given(st.binary(max_size=300), st.booleans())
def test_a_file_of_somebody_else_is_no_entry(data, at_the_end):
    assert entry.unpack(data) is None
    if data:
        assert entry.unpack(WHOLE + data if at_the_end else data + WHOLE) is None


def test_what_is_saved_is_found_under_its_key_only(place):
    store.save("a1", {"n": 1}, b"code")
    assert store.load("a1") == ({"n": 1, "key": "a1"}, b"code")
    assert store.load("a2") is None
    (place / "a1.code").rename(place / "a2.code")
    assert store.load("a2") is None
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("length", [0, 1, 14, 15, 47, 55, 60, 200])
def test_a_torn_file_is_missed_and_written_anew(place, length):
    store.save("a1", {"n": 1}, b"code")
    whole = (place / "a1.code").read_bytes()
    (place / "a1.code").write_bytes(whole[: min(length, len(whole) - 1)])
    assert store.load("a1") is None
    store.save("a1", {"n": 1}, b"code")
    assert (place / "a1.code").read_bytes() == whole


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_not_used(place, mode):
    store.save("a1", {}, b"code")
    place.chmod(mode)
    with pytest.warns(CacheWarning, match=f"others can write to it .mode {mode:o}.*chmod go-w"):
        assert store.load("a1") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.save("a2", {}, b"code")  # says nothing again
    assert [file.name for file in place.iterdir()] == ["a1.code"]
    place.chmod(0o755)
    assert store.load("a1") is not None


def test_a_file_that_others_can_write_to_is_not_used(place):
    store.save("a1", {}, b"code")
    (place / "a1.code").chmod(0o666)
    assert store.load("a1") is None


def test_a_folder_in_place_of_a_file_is_no_entry_and_said_when_written(place):
    store.save("key", FACTS, CODE)
    (file,) = place.iterdir()
    file.unlink()
    file.mkdir()
    assert store.load("key") is None
    with pytest.warns(CacheWarning, match="directory"):
        store.save("key", FACTS, CODE)


def test_a_link_in_the_folder_is_not_followed(place, tmp_path):
    store.save("a1", {}, b"code")
    (place / "a1.code").rename(tmp_path / "elsewhere")
    (place / "a1.code").symlink_to(tmp_path / "elsewhere")
    assert store.load("a1") is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to give files away")
def test_what_belongs_to_another_user_is_not_used(place):
    store.save("a1", {}, b"code")
    os.chown(place / "a1.code", 12345, 12345)
    assert store.load("a1") is None
    os.chown(place / "a1.code", 0, 0)
    os.chown(place, 12345, 12345)
    with pytest.warns(CacheWarning, match="belongs to user 12345"):
        assert store.load("a1") is None


@pytest.mark.parametrize("kind", ["a file", "below a file", "of the kernel's"])
def test_an_impossible_folder_is_said_once(tmp_path, monkeypatch, kind):
    (tmp_path / "file").write_text("mine")
    places = {
        "a file": tmp_path / "file",
        "below a file": tmp_path / "file" / "kernels",
        "of the kernel's": "/proc/haulage",
    }
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(places[kind]))
    with pytest.warns(CacheWarning, match=f"{places[kind]}.*set HAULAGE_CACHE_DIR to a folder"):
        store.save("a1", {}, b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.save("a1", {}, b"code")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_said_and_still_read(monkeypatch):
    # Not below pytest's folders, which no other user can enter.
    with tempfile.TemporaryDirectory() as top:
        place = Path(top) / "kernels"
        monkeypatch.setenv("HAULAGE_CACHE_DIR", str(place))
        Path(top).chmod(0o755)
        _check_a_folder_that_cannot_be_written_to(place)


def _check_a_folder_that_cannot_be_written_to(place):
    store.save("a1", {}, b"code")
    program = """
import os, warnings
from haulage.disk_cache import store
if os.geteuid() == 0:
    os.setuid(12345)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    store.save("a2", {}, b"code")
    found = store.load("a1")
print(len(said), "Permission denied" in str(said[0].message), found is not None)
"""
    place.chmod(0o555)
    (place / "a1.code").chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    place.chmod(0o755)
    assert done.stdout.split() == ["1", "True", "True"], done.stderr


def test_without_a_home_there_is_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for variable in ("HAULAGE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("haulage.config.Path.home", no_home)
    with pytest.warns(CacheWarning, match="Could not determine home directory"):
        store.save("a1", {}, b"code")
    assert store.load("a1") is None


def test_the_folder_follows_the_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("HAULAGE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.path() == tmp_path / "haulage"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.path() == tmp_path / "home" / ".cache" / "haulage"
    monkeypatch.setenv("HAULAGE_CACHE_DIR", "~/kernels")
    assert store.path() == tmp_path / "home" / "kernels"


def test_what_was_not_used_for_longest_is_dropped_first(tmp_path):
    kept = Folder(tmp_path)
    for number in range(10):
        kept.write(f"{number}.code", bytes(100))
        os.utime(tmp_path / f"{number}.code", (time.time() - 1000 + number,) * 2)
    kept.trim(most_bytes=1000)
    assert len(kept.files()) == 10
    kept.trim(most_bytes=999)
    assert [file.name for file in kept.files()] == ["2.code", *(f"{n}.code" for n in range(3, 10))]
    kept.trim(most_files=5)
    assert [file.name for file in kept.files()] == [f"{n}.code" for n in range(6, 10)]


def test_a_use_is_noted(tmp_path):
    kept = Folder(tmp_path)
    kept.write("a.code", b"1")
    kept.write("b.code", b"1")
    for name in ("a.code", "b.code"):
        os.utime(tmp_path / name, (time.time() - 10 * 86400,) * 2)
    assert kept.read("a.code") == b"1"
    assert [file.name for file in kept.files()] == ["b.code", "a.code"]


def test_what_a_writer_left_unfinished_is_removed_after_a_while(tmp_path):
    for name, age in ((".a.code.1.2.part", 7200), (".b.code.1.2.part", 10)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    Folder(tmp_path).trim()
    assert [file.name for file in tmp_path.iterdir()] == [".b.code.1.2.part"]


def test_clearing_leaves_other_files(tmp_path):
    kept = Folder(tmp_path)
    kept.write("a.code", b"1")
    (tmp_path / "notes.txt").write_text("mine")
    assert kept.clear() == 1
    assert kept.files() == []
    assert (tmp_path / "notes.txt").exists()
    assert Folder(tmp_path / "nowhere").clear() == 0


def test_readers_never_see_a_half_written_file(tmp_path):
    kept = Folder(tmp_path)
    versions = [entry.pack({"n": n}, bytes([n]) * 50_000) for n in range(2)]
    kept.write("a.code", versions[0])
    writers = [
        threading.Thread(target=lambda v=v: [kept.write("a.code", v) for _ in range(100)])
        for v in versions
    ]
    for writer in writers:
        writer.start()
    seen = {kept.read("a.code") for _ in range(300)}
    for writer in writers:
        writer.join()
    assert seen <= set(versions)


# What else can be found under the name of an entry: made by a function of the path.
STRANGE = {
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a socket": lambda path: _bound(path),
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a file of a terabyte": lambda path: path.touch() or os.truncate(path, 1 << 40),
    "a file that nobody may read": lambda path: path.touch(0o000),
}


def _bound(path):
    # A name of its whole path would be too long.
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.skipif(os.name != "posix", reason="the system has no such files")
@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_file_in_the_place_of_an_entry_is_none(place, what):
    place.mkdir(mode=0o700)
    path = place / "b1.code"
    STRANGE[what](path)
    with no_hang():
        assert store.load("b1") is None
        if what == "a folder":
            with pytest.warns(CacheWarning, match="cannot write to the cache folder"):
                store.save("b1", FACTS, CODE)
            assert path.is_dir()
            return
        store.save("b1", FACTS, CODE)
        assert store.load("b1") == ({**FACTS, "key": "b1"}, CODE)


@pytest.mark.skipif(os.name != "posix", reason="the system has no such files")
@pytest.mark.parametrize("what", [each for each in STRANGE if each != "a folder"])
def test_what_is_no_folder_in_the_place_of_the_cache_keeps_nothing(place, what):
    STRANGE[what](place)
    with no_hang(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert store.load("c1") is None
        store.save("c1", FACTS, CODE)
        assert store.load("c1") is None
    assert said
    for each in said:
        assert issubclass(each.category, CacheWarning)
        assert "the cache folder" in str(each.message)


@contextlib.contextmanager
def no_hang():
    """Fail in place of waiting for ever."""

    def end(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_strange_files_are_not_dropped_and_stop_no_dropping(place, kind):
    place.mkdir(mode=0o700)
    for name in ("d1.code", ".old.part"):
        (place / name).mkdir() if kind == "folder" else os.mkfifo(place / name)
        os.utime(place / name, (0, 0))
    with no_hang():
        store.save("d2", FACTS, CODE)
        Folder(place).trim(most_bytes=0, most_files=0)
        assert store.load("d2") is None
    assert len(list(place.iterdir())) == (2 if kind == "folder" else 0)
