"""What the CPU device tells of the processor, where the system says more, less or nothing."""

import pytest

from haulage.backends.cpu_driver import processor


def test_the_clock_is_in_kilohertz(tmp_path, monkeypatch):
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Tea 9000\ncpu MHz\t\t: 2596.125\n")
    monkeypatch.setattr(processor, "CPUINFO", told)
    assert processor.clock_khz() == 2_596_125
    assert processor.name() == "Tea 9000"


def test_what_the_system_does_not_tell_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "nothing")
    monkeypatch.setattr(processor, "CACHES", tmp_path / "nothing")
    assert processor.clock_khz() is None
    assert processor.cache_bytes(2) is None
    assert processor.name()


def test_the_cache_is_the_one_for_data_of_that_level(tmp_path, monkeypatch):
    described = [("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M")]
    for number, (level, kind, size) in enumerate([*described, ("3", "Unified", "96")]):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    monkeypatch.setattr(processor, "CACHES", tmp_path)
    found = [processor.cache_bytes(level) for level in (1, 2, 3, 4)]
    assert found == [32 << 10, 1 << 20, 96, None]


def test_the_uuid_depends_on_the_machine_and_does_not_tell_it(tmp_path, monkeypatch):
    told = tmp_path / "machine-id"
    told.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(processor, "MACHINE_ID", told)
    first = processor.uuid()
    assert first == processor.uuid()
    assert "0123456789abcdef" not in first.replace("-", "")
    told.write_text("another\n")
    assert processor.uuid() != first
    told.unlink()
    assert processor.uuid().startswith("CPU-")


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu.max": "5000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
    ],
)
def test_a_container_has_as_many_cores_as_it_is_given_time(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(processor, "CGROUP", tmp_path)
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.delenv("HAULAGE_NUM_THREADS", raising=False)
    assert (processor.cores(), processor.threads()) == (cores, cores)
    monkeypatch.setenv("HAULAGE_NUM_THREADS", "5")
    assert processor.threads() == 5
