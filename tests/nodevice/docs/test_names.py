"""The table of names in `docs/names.md`, and the names, signatures and docstrings themselves."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from haulage import cuda, roc
from haulage.lang.word import Namespace, Register, Register3, Word

PAGE = (Path(__file__).parents[3] / "docs" / "names.md").read_text(encoding="utf-8")
VOCABULARIES = {"cuda": cuda, "roc": roc}
CLASSES = ["DeviceNDArray", "DeviceRecord", "MappedNDArray", "ManagedNDArray"]
CLASSES += ["Stream", "Event", "Graph"]


def is_of_kernels(name, value):
    """Whether a name is a word of the kernel language."""
    return isinstance(value, Namespace | Register | Register3 | Word) or name.startswith("CLK_")


def rows():
    """(classes of the heading, text of the first cell, its name, number of cells) of each row."""
    classes = []
    for line in PAGE.splitlines():
        if line.startswith("#"):
            classes = re.findall(r"`(\w+)`", line)
        elif line.startswith("| `"):
            cells = line.strip().strip("|").split(" | ")
            text = cells[0].strip(" `")
            yield classes, text, text.partition("(")[0], len(cells)


def named():
    """Every name of the table with what it names, as {text: object}, by vocabulary or class."""
    found = {}
    for classes, text, name, _ in rows():
        if name.startswith("."):
            for owner in classes:
                found[f"{owner}{name}", text] = (getattr(cuda, owner), name[1:])
        elif "." in name:
            vocabulary, _, short = name.partition(".")
            found[name, text] = (VOCABULARIES[vocabulary], short)
        else:
            for vocabulary, module in VOCABULARIES.items():
                found[f"{vocabulary}.{name}", text] = (module, name)
    return found


NAMED = named()


def test_each_row_has_three_cells():
    assert {count for *_, count in rows()} == {3}
    assert len(list(rows())) > 100


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_host_name_of_a_vocabulary_is_in_the_table(vocabulary):
    module = VOCABULARIES[vocabulary]
    names = {
        f"{vocabulary}.{n}" for n in module.__all__ if not is_of_kernels(n, getattr(module, n))
    }
    assert names - {name for name, _ in NAMED} == set()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_each_name_of_the_table_is_one_of_the_vocabulary(vocabulary):
    module = VOCABULARIES[vocabulary]
    listed = {short for owner, short in NAMED.values() if owner is module}
    assert listed - set(module.__all__) == set()


def public(owner):
    """The names that a class has of its own or from Haulage's base classes.

    Not those that only say what to use instead: the class has them no more than its instances.
    """
    ours = [base for base in owner.__mro__ if base.__module__.startswith("haulage")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    return {name for name in names if hasattr(owner, name)}


@pytest.mark.parametrize("owner", CLASSES)
def test_each_public_name_of_a_class_is_in_the_table(owner):
    listed = {name.removeprefix(f"{owner}.") for name, _ in NAMED if name.startswith(f"{owner}.")}
    assert public(getattr(cuda, owner)) - listed == set()


@pytest.mark.parametrize("owner", CLASSES)
def test_each_name_of_the_table_is_one_of_the_class(owner):
    listed = {short for of, short in NAMED.values() if of is getattr(cuda, owner)}
    assert [name for name in sorted(listed) if not hasattr(getattr(cuda, owner), name)] == []


def parameters(function):
    """{name: default} of what programs pass, in order; `*names` and `**names` with their stars."""
    signature = inspect.signature(function)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {
        stars.get(p.kind, "") + name: p.default
        for name, p in signature.parameters.items()
        if name != "self"
    }


def written(text):
    """The same from a signature as the table writes it; defaults as their text."""
    call = text.partition("(")[2].removesuffix(")")
    arguments = ast.parse(f"def f({call}): pass").body[0].args
    positional = [argument.arg for argument in arguments.args]
    defaults = [ast.unparse(default) for default in arguments.defaults]
    result = dict.fromkeys(positional, None)
    result |= dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    if arguments.vararg:
        result[f"*{arguments.vararg.arg}"] = None
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        result[argument.arg] = ast.unparse(default)
    if arguments.kwarg:
        result[f"**{arguments.kwarg.arg}"] = None
    return result


CALLS = [(name, text) for name, text in NAMED if "(" in text]
# Their remaining parameters are for Haulage's own use, or those of NumPy's method.
MORE = {
    *(f"{vocabulary}.{name}" for vocabulary in VOCABULARIES for name in CLASSES),
    "MappedNDArray.reshape",
    "ManagedNDArray.reshape",
    "MappedNDArray.astype",
    "ManagedNDArray.astype",
}


@pytest.mark.parametrize(("name", "text"), CALLS, ids=[name for name, _ in CALLS])
def test_the_table_writes_signatures_as_they_are(name, text):
    owner, short = NAMED[name, text]
    actual, expected = parameters(getattr(owner, short)), written(text)
    if name in MORE:
        actual = dict(list(actual.items())[: len(expected)])
    assert list(actual) == list(expected)
    spoken = {"np.float64": "<class 'numpy.float64'>"}
    for parameter, default in expected.items():
        if default is not None:
            assert repr(actual[parameter]) == spoken.get(default, default)


# The parameters that numba.cuda 0.68 (and the documents before it) and numba.roc 0.53 have, in
# their order; programs pass them by position and by name.
NUMBA = {
    "cuda.to_device": "obj stream copy to",
    "cuda.device_array": "shape dtype strides order stream",
    "cuda.device_array_like": "ary stream",
    "cuda.managed_array": "shape dtype strides order stream attach_global",
    "cuda.pinned_array": "shape dtype strides order",
    "cuda.pinned_array_like": "ary",
    "cuda.mapped_array": "shape dtype strides order stream portable wc",
    "cuda.mapped_array_like": "ary stream portable wc",
    "cuda.pinned": "*arylist",
    "cuda.from_cuda_array_interface": "desc owner sync",
    "cuda.as_cuda_array": "obj sync",
    "cuda.is_cuda_array": "obj",
    "cuda.open_ipc_array": "handle shape dtype strides offset",
    "cuda.synchronize": "",
    "cuda.stream": "",
    "cuda.default_stream": "",
    "cuda.legacy_default_stream": "",
    "cuda.per_thread_default_stream": "",
    "cuda.external_stream": "ptr",
    "cuda.event": "timing",
    "cuda.select_device": "device_id",
    "cuda.get_current_device": "",
    "cuda.list_devices": "",
    "cuda.current_context": "devnum",
    "cuda.close": "",
    "cuda.detect": "",
    "cuda.is_available": "",
    "cuda.defer_cleanup": "",
    "cuda.profile_start": "",
    "cuda.profile_stop": "",
    "cuda.profiling": "",
    "cuda.In": "value",
    "cuda.Out": "value",
    "cuda.InOut": "value",
    "roc.to_device": "obj stream context copy to",
    "roc.device_array": "shape dtype strides order",
    "roc.device_array_like": "ary",
    "roc.register": "*arrays",
    "roc.deregister": "*arrays",
    "roc.stream": "",
    "roc.coarsegrain_array": "shape dtype strides order",
    "roc.finegrain_array": "shape dtype strides order",
    "roc.is_available": "",
    "DeviceNDArray": "shape strides dtype stream gpu_data",
    "DeviceRecord": "dtype stream gpu_data",
    "DeviceNDArray.copy_to_device": "ary stream",
    "DeviceNDArray.copy_to_host": "ary stream",
    "DeviceNDArray.split": "section stream",
    "DeviceNDArray.ravel": "order stream",
    "DeviceNDArray.squeeze": "axis stream",
    "DeviceNDArray.view": "dtype",
    "DeviceNDArray.bind": "stream",
    "DeviceNDArray.getitem": "item stream",
    "DeviceNDArray.setitem": "key value stream",
    "DeviceNDArray.get_ipc_handle": "",
    "DeviceNDArray.is_c_contiguous": "",
    "DeviceNDArray.is_f_contiguous": "",
    "DeviceRecord.copy_to_device": "ary stream",
    "DeviceRecord.copy_to_host": "ary stream",
    "MappedNDArray.copy_to_device": "ary stream",
    "MappedNDArray.copy_to_host": "ary stream",
    "MappedNDArray.split": "section stream",
    "ManagedNDArray.copy_to_device": "ary stream",
    "ManagedNDArray.copy_to_host": "ary stream",
    "Stream.synchronize": "",
    "Stream.auto_synchronize": "",
    "Stream.add_callback": "callback arg",
    "Stream.async_done": "",
    "Event.record": "stream",
    "Event.wait": "stream",
    "Event.query": "",
    "Event.synchronize": "",
}


def find(name):
    found = cuda
    for part in name.split("."):
        found = VOCABULARIES.get(part) or getattr(found, part)
    return found


@pytest.mark.parametrize("name", NUMBA)
def test_parameters_have_numbas_names_and_order(name):
    expected = NUMBA[name].split()
    actual = parameters(find(name))
    assert list(actual)[: len(expected)] == expected
    beyond = list(actual.items())[len(expected) :]
    assert [key for key, default in beyond if default is inspect.Parameter.empty] == []


def host_functions():
    """Each host name of the vocabularies, and each public method of the classes."""
    for vocabulary, module in VOCABULARIES.items():
        for name in module.__all__:
            if not is_of_kernels(name, getattr(module, name)):
                yield f"{vocabulary}.{name}", getattr(module, name)
    for owner in CLASSES:
        for name in sorted(public(getattr(cuda, owner))):
            value = inspect.getattr_static(getattr(cuda, owner), name)
            if isinstance(value, property):
                value = value.fget
            if callable(value) or isinstance(value, classmethod | staticmethod):
                yield f"{owner}.{name}", inspect.unwrap(getattr(value, "__func__", value))


FUNCTIONS = dict(host_functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_host_name_is_documented(name):
    text = inspect.getdoc(FUNCTIONS[name])
    assert text is not None
    assert text.split("\n")[0].strip()


def is_exception(value):
    return inspect.isclass(value) and issubclass(value, BaseException)


CALLED = [
    name
    for name, value in FUNCTIONS.items()
    if callable(value)
    and not is_exception(value)
    # Made without arguments, or by the fields of a named tuple.
    and name not in ("cuda.GetIpcHandleMixin", "cuda.MemoryInfo")
]


@pytest.mark.parametrize("name", CALLED)
def test_each_host_name_has_type_hints(name):
    value = FUNCTIONS[name]
    if inspect.isclass(value):
        value = value.__init__ if inspect.isfunction(value.__init__) else value.__new__
    function = inspect.unwrap(value)
    bare = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert bare == []
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty
