"""Each word of the kernel language means something where kernels run as Python."""

import importlib
import pkgutil

import numpy as np
import pytest

import haulage
import haulage.lang
from haulage import cuda, roc
from haulage.errors import CompileError
from haulage.interpreting.compiled import is_of_numbers
from haulage.interpreting.meanings import MEANINGS
from haulage.lang.debug import asks
from haulage.lang.word import Namespace, Register, Register3, Word


def words():
    """Each word, with the module that has it."""
    for found in pkgutil.walk_packages(haulage.lang.__path__, "haulage.lang."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            for each in vars(value).values() if isinstance(value, Namespace) else (value,):
                if isinstance(each, Word):
                    yield each, found.name.split(".")[2]


def test_each_word_has_a_meaning_or_is_one_of_numbers():
    there = dict(words())
    assert len(there) > 500
    without = {
        word.__qualname__: room
        for word, room in there.items()
        if word not in MEANINGS and not is_of_numbers(word)
    }
    assert without == {}


@pytest.mark.parametrize("vocabulary", [cuda, roc])
def test_what_a_vocabulary_offers_is_known(vocabulary):
    from haulage.interpreting.functions import Functions, Lazy, Registers, Said, Space

    functions = Functions()
    kinds = {Word: Said, Register3: Registers, Register: Lazy, Namespace: Space}
    for name in vocabulary.__all__:
        value = getattr(vocabulary, name)
        for kind, twin in kinds.items():
            if isinstance(value, kind):
                assert isinstance(functions.converted(value), twin), name


def stops(x):
    breakpoint()
    x[0] = 1


def stops_by_word(x):
    cuda.set_trace()
    x[0] = 1


def stops_in_a_function(x):
    stops(x)


def does_not_stop(x):
    x[0] = np.sqrt(x[1])


@pytest.mark.parametrize("function", [stops, stops_by_word, stops_in_a_function])
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_code_for_gpus_cannot_stop(function, target):
    with pytest.raises(CompileError, match="stop on the CPU device only; run the program on it"):
        haulage.compile(function, "void(float32[:])", target)
    assert "CPU" not in haulage.compile(does_not_stop, "void(float32[:])", target).asm


def test_which_kernels_ask_for_a_debugger():
    asking = [
        stops,
        stops_by_word,
        stops_in_a_function,
        cuda.jit(stops),
        cuda.jit(device=True)(stops),
    ]
    assert all(map(asks, asking))
    assert not asks(does_not_stop)
    inner = cuda.jit(device=True)(stops)

    def by_closure(x):
        inner(x)

    def named_otherwise(x):
        breakpoint = x
        breakpoint[0] = 1

    assert asks(by_closure)
    assert not asks(named_otherwise)
