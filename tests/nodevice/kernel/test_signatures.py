"""Signatures are read without Numba as Numba reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage import numba_bridge
from haulage.compiler.frontend import parse_signature
from haulage.kernel import signatures
from haulage.kernel.signatures import keys_of

names = st.sampled_from(sorted(signatures._DTYPES))
axes = st.sampled_from(
    ["", "[:]", "[::1]", "[ : ]", "[:,:]", "[:, ::1]", "[::1, :]", "[:,:,::1]", "[:, :, :]", " [:]"]
)
arguments = st.lists(st.tuples(names, axes).map("".join), max_size=4)


def of_numba(text):
    return tuple(numba_bridge.key_of(kind) for kind in parse_signature(text))


@given(arguments, st.sampled_from(["void", "none", " void "]), st.sampled_from([",", ", ", " , "]))
def test_plain_signatures_have_the_keys_that_numba_gives(listed, returned, comma):
    text = f"{returned}({comma.join(listed)})"
    assert signatures._plain_keys(text) == of_numba(text)


@pytest.mark.parametrize("text", ["void(str)", "void(Record)", "void(no_such_type)"])
def test_what_names_no_type_is_a_type_error_that_says_so(text):
    with pytest.raises(TypeError, match=r"the signature .* cannot be read: .+"):
        keys_of(text)


def test_every_plain_name_is_one_of_numbas():
    for name in signatures._DTYPES:
        assert signatures._plain_keys(f"void({name})") == of_numba(f"void({name})")
    assert signatures._plain_keys("void(float32[:],)") == of_numba("void(float32[:],)")


@pytest.mark.parametrize(
    "text",
    ["(float32[:], int64)", "(float32,)", "void(UniTuple(int64, 2))", "void(types.int64)"],
)
def test_other_signatures_are_read_by_numba(text):
    assert signatures._plain_keys(text) is None
    if "types." not in text:
        assert keys_of(text) == of_numba(text)


@pytest.mark.parametrize(
    "text",
    ["void(,)", "void(nothing)", "void(float32[:],,)", "void(float32[1])", "int32(int32)", "void("],
)
def test_what_is_no_signature_is_refused(text):
    assert signatures._plain_keys(text) is None
    with pytest.raises(TypeError):
        keys_of(text)
