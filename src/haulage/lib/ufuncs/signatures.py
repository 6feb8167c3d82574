"""From what users write as the signatures of a ufunc to dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.errors import CompileError
from haulage.kernel import Vocabulary, result_type
from haulage.lib.ufuncs.choosing import Signature
from haulage.lib.ufuncs.core_shapes import CoreShapes

Dtypes = tuple[np.dtype[Any], ...]


def elementwise(
    function: Callable[..., Any], signature: Any, nin: int, vocabulary: Vocabulary, name: str
) -> Signature:
    """A signature of `vectorize`: numbers to a number.

    Its `detail` is the dtype that the function itself returns.

    Raises:
        TypeError: it is none, or the function does not take or return such numbers.
    """
    from haulage.compiler.frontend import parse_function_signature

    arguments, returned = parse_function_signature(signature)
    if len(arguments) != nin:
        raise TypeError(
            f"{name} takes {nin} arguments, the signature {signature!r} has {len(arguments)}"
        )
    inputs = tuple(_dtype(kind, name) for kind in arguments)
    made = inferred(function, inputs, vocabulary, name)
    return made if returned is None else made._replace(outputs=(_dtype(returned, name),))


def inferred(
    function: Callable[..., Any], inputs: Dtypes, vocabulary: Vocabulary, name: str
) -> Signature:
    """The signature of a function for elements of these dtypes.

    Raises:
        TypeError: kernels have no such numbers, or the function returns something else.
        CompileError: it cannot be compiled for them.
    """
    from haulage import numba_bridge

    kinds = tuple(numba_bridge.numba_type(("scalar", dtype)) for dtype in inputs)
    result = result_type(function, kinds, vocabulary, name)
    output = _dtype(result, f"{name}: its result")
    return Signature(inputs, (output,), output)


def generalised(
    function: Callable[..., Any],
    signature: Any,
    cores: CoreShapes,
    vocabulary: Vocabulary,
    name: str,
) -> Signature:
    """A signature of `guvectorize`: arrays, numbers for inputs without core dimensions.

    Its `detail` is a `Core`.

    Raises:
        TypeError: it is none, returns a value, or the function returns one.
        ValueError: an array in it has other axes than the layout says.
        CompileError: the function cannot be compiled for it.
    """
    from haulage import numba_bridge
    from haulage.compiler.frontend import parse_function_signature

    arguments, returned = parse_function_signature(signature)
    if returned is not None:
        raise TypeError(
            f"{name}: guvectorized functions cannot return values: signature {signature} "
            f"specifies {returned} return type"
        )
    expected = [*cores.inputs, *cores.outputs]
    if len(arguments) != len(expected):
        raise TypeError(
            f"{name}: the layout {cores.text} has {len(expected)} arguments, the signature "
            f"{signature!r} has {len(arguments)}"
        )
    dtypes = []
    numbers = []
    for place, (kind, core) in enumerate(zip(arguments, expected, strict=True)):
        what, dtype, *axes = numba_bridge.key_of(kind)
        is_output = place >= len(cores.inputs)
        if what == "scalar" and not core and not is_output:
            numbers.append(True)
        elif what == "array" and axes[0] == max(len(core), 1):
            numbers.append(False)
        else:
            raise ValueError(
                f"{name}: gufunc signature mismatch: argument {place} is {kind}, and "
                f"({','.join(core)}) in {cores.text}"
            )
        dtypes.append(dtype)
    nin = len(cores.inputs)
    detail = typed(function, tuple(dtypes), tuple(numbers), cores, vocabulary, name)
    return Signature(tuple(dtypes[:nin]), tuple(dtypes[nin:]), detail)


class Core:
    """How a kernel calls the function of a gufunc.

    `axes`: for each argument how many axes the function gets; None is a number. `writes_inputs`:
    whether it writes to arrays that are inputs.
    """

    def __init__(self, axes: tuple[int | None, ...], writes_inputs: bool) -> None:
        self.axes = axes
        self.writes_inputs = writes_inputs


def typed(
    function: Callable[..., Any],
    dtypes: Dtypes,
    numbers: tuple[bool, ...],
    cores: CoreShapes,
    vocabulary: Vocabulary,
    name: str,
) -> Core:
    """The `Core` for arguments of these dtypes, `numbers` of which are no arrays.

    Raises:
        TypeError: the function returns a value, or kernels have no such elements.
        CompileError: it cannot be compiled for them.
    """
    from haulage import numba_bridge

    expected = [*cores.inputs, *cores.outputs]
    axes = tuple(
        None if number else len(core) for number, core in zip(numbers, expected, strict=True)
    )

    def compiled(readonly: bool) -> Any:
        kinds = [
            numba_bridge.numba_type(("scalar", dtype))
            if core is None
            else numba_bridge.numba_type(
                ("array", dtype, max(core, 1), "A", readonly and place < len(cores.inputs), True)
            )
            for place, (dtype, core) in enumerate(zip(dtypes, axes, strict=True))
        ]
        return result_type(function, tuple(kinds), vocabulary, name)

    try:
        result, writes_inputs = compiled(readonly=True), False
    except CompileError:
        # If that is not because it writes to an input, it fails this way too.
        result, writes_inputs = compiled(readonly=False), True
    if str(result) != "none":
        raise TypeError(
            f"{name}: guvectorized functions cannot return values; it returns {result}: write the "
            "results to the elements of its last arguments"
        )
    return Core(axes, writes_inputs)


def _dtype(kind: Any, name: str) -> np.dtype[Any]:
    from haulage import numba_bridge

    try:
        what, dtype, *values = numba_bridge.key_of(kind)
        if what == numba_bridge.ENUM and issubclass(dtype, int):
            # A member of an IntEnum is its number.
            what, dtype = values[0]
    except TypeError:
        what, dtype = "", None
    if what != "scalar":
        raise TypeError(f"{name}: {kind} is no number; vectorize takes functions of numbers")
    return dtype
