"""`guvectorize`: a function of small arrays as a function of arrays of them."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from haulage.errors import HaulageError, ShapeMismatch
from haulage.kernel import Vocabulary
from haulage.lib.ufuncs import core_shapes, moving, signatures, source
from haulage.lib.ufuncs.array_function import ArrayFunction
from haulage.lib.ufuncs.axes import broadcast_strides, merged
from haulage.lib.ufuncs.choosing import Signature, choose
from haulage.lib.ufuncs.launching import (
    COUNT,
    block_size,
    blocks,
    key,
    launch,
)
from haulage.lib.ufuncs.operands import (
    ON_DEVICE,
    Array,
    Given,
    apart,
    as_scalar,
    broadcast_shape,
    dense,
    given,
    is_array,
    new_array,
    operand,
    outputs,
    place_of,
    target,
)
from haulage.lib.ufuncs.passing import Constant, arranged, view
from haulage.lib.ufuncs.plans import Launched, Made, plan_key
from haulage.lib.ufuncs.ufunc import cast
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream_arguments import StreamLike
from haulage.tracebacks import brief_errors, shorten

# Core arrays with fewer elements are like numbers for the caches.
_ROW = 8

_Choice = tuple[tuple[Given, ...], tuple[np.dtype[Any] | None, ...]]


class GUFunc(ArrayFunction):
    """A function of small arrays that works on arrays of them, made by `guvectorize`.

    A thread calls the function once for each place of the loop axes. Inputs are read-only to the
    function where it does not write to them; where it does, it gets a copy of a host array, and
    writes to a device array, as in Numba.

    Args:
        function: a Python function whose last arguments are the outputs, or a device function.
        vocabulary: whose words it may use.
        layout: the core dimensions of inputs and outputs, such as `(m,n),(n,p)->(m,p)`.
        signatures: what it is compiled for; none: for whatever it is called with, outputs
            included.
        identity: kept as an attribute, as NumPy does.
        cache: whether its kernels are kept on disk.

    Raises:
        TypeError: the function returns a value, or a signature is none.
        ValueError: the layout is none, or a signature does not fit it.
        CompileError: it cannot be compiled for a signature.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        vocabulary: Vocabulary,
        layout: str,
        signatures: Sequence[Any] = (),
        identity: int | None = None,
        cache: bool = False,
    ) -> None:
        self._cores = core_shapes.parse(layout)
        self.signature = self._cores.text
        nin, nout = len(self._cores.inputs), len(self._cores.outputs)
        super().__init__(function, vocabulary, nin, nout, identity, cache)
        self._chosen: dict[_Choice, Signature] = {}
        for signature in signatures:
            self.add(signature)
        self._is_dynamic = not signatures

    def _layout(self) -> tuple[str, ...]:
        return (self.signature,)

    @brief_errors
    def add(self, signature: Any) -> None:
        """Compile for one more signature."""
        made = signatures.generalised(
            self._function,
            signature,
            self._cores,
            self._kernels.vocabulary,
            self.__qualname__,
        )
        if all(made.inputs != other.inputs for other in self._signatures):
            self._signatures.append(made)
        self._declared.append(signature)
        self._is_dynamic = False
        self._chosen.clear()
        self._plans.clear()

    def __call__(self, *args: Any, out: Any = None, stream: StreamLike = 0) -> Any:
        """The function of the small arrays that the last axes of the arguments are.

        The axes before these are loop axes, which are broadcast as NumPy does.

        Args:
            args: the inputs: arrays of the host or of one device, numbers, or what `np.asarray`
                takes; behind them may stand arrays for all outputs.
            out: an array for the output, or a tuple with an array or None for each.
            stream: in which it happens. With arrays of the host the call waits for it.

        Returns:
            The output, a tuple of them if there are several: what was given for it, else a device
            array if an argument is one, else a SmartArray if an argument is one, else a host array
            or a NumPy scalar.

        Raises:
            TypeError: too few or too many arguments, no signature fits, an output has another dtype
                than the signature's, or there is no signature and no output.
            ValueError: core dimensions do not fit, or an output is read-only or given twice.
            ShapeMismatch: a ValueError; loop axes cannot be broadcast, or an output has others.
            DeviceMismatch: arrays and stream are of different devices.
        """
        try:
            name, nin = self.__qualname__, self.nin
            if len(args) != nin and (out is None or len(args) < nin) and len(args) != self.nargs:
                raise TypeError(
                    f"{name}: This gufunc accepts {_positional(nin)} (when providing input only) "
                    f"or {_positional(self.nargs)} (when providing input and output). "
                    f"Got {_positional(len(args))}."
                )
            wanted = outputs(out, args[nin:], self.nout, name)
            kinds = plan_key((*args[:nin], *wanted), stream)
            if kinds is None and moving.are_there(args[:nin], wanted):
                # The function may leave elements of its outputs out, or read them.
                made: Sequence[Any] = moving.call(
                    args[:nin], wanted, stream, name, False, partial(self._filled, stream)
                )
            else:
                made = self._filled(stream, args[:nin], wanted, kinds=kinds)
            return self._given_back(wanted, made)
        except HaulageError as error:
            shorten(error)
            raise

    def _filled(
        self,
        stream: StreamLike,
        args: Sequence[Any],
        wanted: Sequence[Any],
        kept: frozenset[int] = frozenset(),
        kinds: Hashable | None = None,
    ) -> Sequence[Any]:
        """The outputs of a call; inputs with the numbers `kept` are not written to. `kinds` is its
        `plan_key`, if that is known."""
        name, nin = self.__qualname__, self.nin
        if kinds is None:
            kinds = plan_key((*args, *wanted), stream)
        plan = self._plans.get(kinds, args, wanted)
        if plan is not None:
            return plan.follow(args, wanted, stream)
        values = [operand(value, stream, name) for value in args]
        targets = [None if each is None else target(each, stream, name) for each in wanted]
        signature = self._signature(
            tuple(map(given, values)),
            tuple(None if each is None else each.dtype for each in targets),
        )
        inputs: list[Array] = [
            cast(value, dtype, self._kernels.vocabulary, stream)
            if is_array(value)
            else np.asarray(as_scalar(value, dtype))
            for value, dtype in zip(values, signature.inputs, strict=True)
        ]
        if signature.detail.writes_inputs:
            inputs = [
                dense(value, stream) if number in kept and value is values[number] else value
                for number, value in enumerate(inputs)
            ]
        loop, shapes = self._shapes(inputs, targets)
        place = place_of([*inputs, *targets], stream, name)
        on_device = any(isinstance(each, DeviceNDArray) for each in inputs)
        results = [
            new_array(shape, dtype, "C", on_device, place, stream) if each is None else each
            for each, shape, dtype in zip(targets, shapes, signature.outputs, strict=True)
        ]
        if prod(loop):
            written = [each for each in targets if each is not None and each.size]
            elementwise = not any(self._cores.inputs)
            inputs = [apart(value, written, elementwise, stream) for value in inputs]
            launched = self._run(signature, inputs, results, loop, stream, place)
            if kinds is not None and launched is not None and all(map(is_array, args)):
                made = [
                    Made(shape, dtype, "C", on_device) if own is None else None
                    for own, shape, dtype in zip(wanted, shapes, signature.outputs, strict=True)
                ]
                before, used = [*args, *wanted], [*inputs, *results]
                numbers = [None] * nin
                self._plans.put(kinds, before, used, place, numbers, made, launched, elementwise)
        return results

    def _given_back(self, wanted: Sequence[Any], results: Sequence[Array]) -> Any:
        given_back = [
            own if own is not None else each[()] if isinstance(each, np.ndarray) else each
            for own, each in zip(wanted, results, strict=True)
        ]
        return given_back[0] if self.nout == 1 else tuple(given_back)

    def _signature(
        self, operands: tuple[Given, ...], results: tuple[np.dtype[Any] | None, ...]
    ) -> Signature:
        chosen = self._chosen.get((operands, results))
        if chosen is None:
            find = self._made_for if self._is_dynamic else self._found
            chosen = self._chosen[operands, results] = find(operands, results)
        return chosen

    def _found(
        self, operands: tuple[Given, ...], results: tuple[np.dtype[Any] | None, ...]
    ) -> Signature:
        name = self.__qualname__
        chosen = choose(self._signatures, operands, narrow=True)
        if chosen is None:
            hint = "host arrays and numbers are cast to it within their kind"
            if any(each.kind == ON_DEVICE for each in operands):
                hint += "; an array on the device only if that is safe, as it does not support"
                hint += " .astype()"
            dtypes = ", ".join(str(each.dtype) for each in operands)
            raise TypeError(
                f"{name}: no matching signature for ({dtypes}); it has {', '.join(self.types)}; "
                f"{hint}"
            )
        for number, (dtype, own) in enumerate(zip(results, chosen.outputs, strict=True)):
            if dtype is not None and dtype != own:
                raise TypeError(
                    f"{name}: output {number} has dtype {dtype}; the signature {chosen} has {own}"
                )
        return chosen

    def _made_for(
        self, operands: tuple[Given, ...], results: tuple[np.dtype[Any] | None, ...]
    ) -> Signature:
        dtypes = [each.dtype for each in operands]
        for dtype in results:
            if dtype is None:
                raise TypeError(
                    f"{self.__qualname__}: it was made without signatures, so that nothing tells "
                    "the dtypes of its outputs: give arrays for all of them, by out= or behind the "
                    "inputs"
                )
            dtypes.append(dtype)
        numbers = tuple(not core for core in self._cores.inputs) + (False,) * self.nout
        core = signatures.typed(
            self._function,
            tuple(dtypes),
            numbers,
            self._cores,
            self._kernels.vocabulary,
            self.__qualname__,
        )
        made = Signature(tuple(dtypes[: self.nin]), tuple(dtypes[self.nin :]), core)
        self._signatures.append(made)
        return made

    def _shapes(
        self, inputs: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """The loop axes, and the shape of each output."""
        name, cores = self.__qualname__, self._cores
        sizes = cores.sizes(
            name,
            [each.shape for each in inputs],
            [None if each is None else each.shape for each in targets],
        )
        loops = [
            each.shape[: len(each.shape) - len(core)]
            for each, core in zip(inputs, cores.inputs, strict=True)
        ]
        loop = broadcast_shape(loops, name)
        given_loops = [
            each.shape[: len(each.shape) - len(core)]
            for each, core in zip(targets, cores.outputs, strict=True)
            if each is not None
        ]
        # Numba lets an output leave out leading axes of length 1.
        while given_loops and loop[:1] == (1,) and len(loop) > max(map(len, given_loops)):
            loop = loop[1:]
        if given_loops:
            loop = broadcast_shape([loop, *given_loops], name)
        for own in given_loops:
            if own != loop:
                raise ShapeMismatch(
                    f"{name}: an output has loop axes of shape {own}; the inputs give {loop}"
                )
        shapes = [loop + tuple(sizes[letter] for letter in core) for core in cores.outputs]
        return loop, shapes

    def _run(
        self,
        signature: Signature,
        inputs: Sequence[Array],
        results: Sequence[Array],
        loop: tuple[int, ...],
        stream: StreamLike,
        place: Device,
    ) -> Launched | None:
        """Fill the results; None if that was more than a launch with the operands themselves."""
        cores = [*self._cores.inputs, *self._cores.outputs]
        arrays = [*inputs, *results]
        ends = [len(each.shape) - len(core) for each, core in zip(arrays, cores, strict=True)]
        sizes, strides = merged(
            loop,
            [
                broadcast_strides(each.shape[:end], each.strides[:end], loop)
                for each, end in zip(arrays, ends, strict=True)
            ],
        )
        count = prod(sizes)
        arguments = [
            Constant(count),
            *(
                view(number, each, sizes + each.shape[end:], steps + each.strides[end:])
                for number, (each, end, steps) in enumerate(zip(arrays, ends, strides, strict=True))
            ),
        ]
        passed = arranged(arguments, arrays, stream)
        views = passed[1:]
        detail = signature.detail
        if detail.writes_inputs:
            for number, value in enumerate(inputs):
                if isinstance(value, DeviceNDArray) and value.readonly:
                    raise ValueError(
                        f"{self.__qualname__}: it writes to its inputs, and input {number} is a "
                        "read-only device array"
                    )
        keys = [key(view, readonly=not detail.writes_inputs) for view in views[: self.nin]]
        keys += [key(view, readonly=False) for view in views[self.nin :]]

        def make() -> Callable[..., Any]:
            text = source.generalised(len(sizes), detail.axes)
            return source.function(text, self._function, {}, f"guvectorize({self.__qualname__})")

        kernel = self._kernels.get((COUNT, *keys), (len(sizes), detail.axes), make)
        largest = max(prod(each.shape[end:]) for each, end in zip(arrays, ends, strict=True))
        rows = (place.properties.row_block,) if largest >= _ROW else ()
        threads = block_size(self._most_threads, *rows)
        grid = blocks(count, threads)
        launch(
            kernel,
            grid,
            (threads,),
            stream,
            place,
            passed[: self.nin + 1],
            views[self.nin :],
            copy_inputs=detail.writes_inputs,
        )
        if detail.writes_inputs:
            return None
        return Launched(kernel, grid, (threads,), arguments, passed)

    def __repr__(self) -> str:
        vocabulary = self._kernels.vocabulary.name
        return f"<{vocabulary} gufunc {self.__qualname__} {self.signature}>"


def _positional(count: int) -> str:
    return f"{count} positional argument{'s' if count != 1 else ''}"
