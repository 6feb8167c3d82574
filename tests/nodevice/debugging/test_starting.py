"""Which launch of a program stops."""

from types import SimpleNamespace

import pytest

from haulage.debugging.settings import Settings
from haulage.debugging.starting import Chosen


def chosen(kernel="", block=None, thread=None, launch=1):
    return Chosen(
        Settings(program="p", starter=0, kernel=kernel, block=block, thread=thread, launch=launch)
    )


def kernel(name, module="program"):
    return SimpleNamespace(
        __name__=name,
        __qualname__=f"main.<locals>.{name}",
        py_func=SimpleNamespace(__module__=module),
    )


def test_the_first_launch_of_any_kernel_is_taken_and_no_other():
    choose = chosen()
    assert choose.take(kernel("a"), False) == ((0, 0, 0), (0, 0, 0), False)
    assert choose.take(kernel("a"), False) is None
    assert choose.take(kernel("b"), False) is None


def test_kernels_of_haulage_itself_are_not_meant():
    choose = chosen()
    assert choose.take(kernel("a", "haulage.lib.reduce"), False) is None
    assert choose.take(kernel("b"), False) is not None


@pytest.mark.parametrize("name", ["b", "main.b", "main.<locals>.b"])
def test_a_kernel_is_known_by_its_names(name):
    choose = chosen(name, block=[1, 2, 0])
    assert choose.take(kernel("a"), False) is None
    assert choose.take(kernel("b"), False).block == (1, 2, 0)


def test_the_launches_of_the_kernel_are_counted():
    choose = chosen("b", launch=3)
    taken = [choose.take(kernel(name), False) is not None for name in "babbb"]
    assert taken == [False, False, False, True, False]


def test_a_kernel_that_asks_is_stopped_there_unless_a_place_is_chosen():
    assert chosen().take(kernel("a"), True) is None
    assert chosen(thread=[3, 0, 0]).take(kernel("a"), True) == ((0, 0, 0), (3, 0, 0), True)
    assert chosen(block=[3, 0, 0]).take(kernel("a"), True) == ((3, 0, 0), (0, 0, 0), False)


def test_nothing_stopped_is_told(capsys):
    choose = chosen("scal")
    choose.take(kernel("scale"), False)
    choose.end()
    told = capsys.readouterr().err
    assert "there was no launch 1 of scal; launched were main.scale (1 times)" in told
    choose = chosen()
    choose.take(kernel("scale"), False)
    choose.end()
    assert capsys.readouterr().err == ""
