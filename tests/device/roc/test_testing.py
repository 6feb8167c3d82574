"""`roc.test()`, which says whether copies and kernels work on a device."""

import numpy as np
import pytest

from haulage import roc
from haulage.errors import DeviceError
from haulage.roc import testing


def test_what_it_tries_is_right(device, capsys):
    assert roc.test() is True
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{device}: {device.name}"
    assert len(lines) == (6 if device.kind in ("nvidia", "ptx") else 7)
    assert all(line.endswith(": right") for line in lines)


def broken():
    raise DeviceError("no more of it")


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: (np.arange(3), np.array([0, 5, 7])), "2 of 3 elements are wrong"),
        (broken, "DeviceError: no more of it"),
    ],
)
def test_what_is_wrong_is_told_and_the_rest_tried(device, capsys, monkeypatch, check, told):
    monkeypatch.setattr(
        testing, "_CHECKS", {"adding": check, "wavefronts": check, "copies": testing._copies}
    )
    assert roc.test() is False
    _, adding, *_, copies = capsys.readouterr().out.splitlines()
    assert (adding, copies) == (f"  adding: {told}", "  copies: right")
