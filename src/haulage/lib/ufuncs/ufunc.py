"""`vectorize`: a function of numbers as a function of arrays, element by element."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from haulage.errors import HaulageError, ShapeMismatch
from haulage.kernel import Kernel, Vocabulary
from haulage.lib.ufuncs import moving, signatures, source
from haulage.lib.ufuncs.array_function import ArrayFunction
from haulage.lib.ufuncs.axes import broadcast_strides, merged
from haulage.lib.ufuncs.choosing import Signature, choose
from haulage.lib.ufuncs.folding import fold
from haulage.lib.ufuncs.launching import (
    SIZE,
    block_size,
    blocks,
    key,
    launch,
    sizes_key,
)
from haulage.lib.ufuncs.operands import (
    Array,
    Given,
    apart,
    as_scalar,
    broadcast_shape,
    dense,
    given,
    has_whole_steps,
    is_array,
    is_plain,
    memory_of,
    new_array,
    operand,
    outputs,
    place_of,
    target,
)
from haulage.lib.ufuncs.passing import Argument, Constant, Itself, Memory, arranged, view
from haulage.lib.ufuncs.plans import Launched, Made, plan_key
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.keys import Key
from haulage.runtime.buffers.coherent import read_in
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, for_work
from haulage.runtime.launch.placement import in_place
from haulage.tracebacks import brief_errors, shorten

# Rows that are shorter share a block.
_SHORT_ROW, _SHORT_BLOCK = 64, 16


class UFunc(ArrayFunction):
    """A function of numbers that works on whole arrays, made by `vectorize`.

    Kernels can call it too, with numbers.

    Args:
        function: a Python function of numbers, or a device function.
        vocabulary: whose words it may use.
        signatures: what it is compiled for, each argument types and, if it is not to be inferred,
            the result's; none: for whatever it is called with.
        identity: what `reduce` gives for no elements: 0, 1 or None for an error.
        cache: whether its kernels are kept on disk.

    Raises:
        TypeError: the function cannot be one of elements, or a signature is none.
        CompileError: it cannot be compiled for a signature.
    """

    haulage_function = True

    def __init__(
        self,
        function: Callable[..., Any],
        vocabulary: Vocabulary,
        signatures: Sequence[Any] = (),
        identity: int | None = None,
        cache: bool = False,
    ) -> None:
        nin = _count_parameters(getattr(function, "py_func", function))
        super().__init__(function, vocabulary, nin, 1, identity, cache)
        self._plain_kernels: dict[tuple[tuple[Given, ...], np.dtype[Any]], Kernel] = {}
        self._chosen: dict[tuple[Given, ...], Signature] = {}
        for signature in signatures:
            self.add(signature)
        self._is_dynamic = not signatures

    @brief_errors
    def add(self, signature: Any) -> None:
        """Compile for one more signature."""
        made = signatures.elementwise(
            self._function, signature, self.nin, self._kernels.vocabulary, self.__qualname__
        )
        if all(made.inputs != other.inputs for other in self._signatures):
            self._signatures.append(made)
        self._declared.append(signature)
        self._is_dynamic = False
        self._chosen.clear()
        self._plain_kernels.clear()
        self._plans.clear()

    @property
    def haulage_signatures(self) -> tuple[Any, ...]:
        """Numba types of the arguments of each signature, to which kernels' calls convert."""
        from haulage import numba_bridge

        if self._is_dynamic:
            return ()
        return tuple(
            tuple(numba_bridge.numba_type(("scalar", dtype)) for dtype in signature.inputs)
            for signature in self._signatures
        )

    def __call__(self, *args: Any, out: Any = None, stream: StreamLike = 0) -> Any:
        """The function of each element of the arguments, broadcast as NumPy does.

        Args:
            args: arrays of the host or of one device, numbers, or what `np.asarray` takes; behind
                them may stand the array for the result.
            out: an array of the host or the device for the result, or a tuple of one. Its dtype is
                the result's, or one that NumPy casts that to with `casting="same_kind"`.
            stream: in which it happens. With arrays of the host the call waits for it.

        Returns:
            `out` if it was given; else a device array if an argument is one, else a SmartArray if
            an argument is one, else a host array, or a NumPy scalar if all arguments are scalars.

        Raises:
            TypeError: too few or too many arguments, no signature fits, or `out` has a dtype that
                the result is not cast to.
            ShapeMismatch: a ValueError; shapes cannot be broadcast, or `out` has another one.
            ValueError: `out` is read-only.
            DeviceMismatch: arrays and stream are of different devices.
        """
        try:
            name = self.__qualname__
            nin = self.nin
            if not nin <= len(args) <= nin + 1:
                raise TypeError(
                    f"{name} takes {nin} arguments, and one more for the result; got {len(args)}"
                )
            wanted = outputs(out, args[nin:], 1, name)[0]
            kinds = plan_key((*args[:nin], wanted), stream)
            if kinds is None and moving.are_there(args[:nin], (wanted,)):
                return moving.call(
                    args[:nin], [wanted], stream, name, True, partial(self._on_device, stream)
                )[0]
            plan = self._plans.get(kinds, args[:nin], (wanted,))
            if plan is not None:
                filled = plan.follow(args[:nin], (wanted,), stream)[0]
                has_array = any(map(is_array, args))
                return filled if wanted is not None or has_array else filled[()]
            values = [operand(value, stream, name) for value in args[:nin]]
            operands = tuple([given(value) for value in values])
            signature = self._signature(operands)
            result: Any = None if wanted is None else target(wanted, stream, name)
            arrays = [value for value in values if is_array(value)]
            shapes = [array.shape for array in (arrays if result is None else [*arrays, result])]
            shape = broadcast_shape(shapes, name) if shapes else ()
            if result is not None:
                _check_result(result, shape, signature, name)
            place = place_of([*values, result], stream, name)
            on_device = any(type(array) is DeviceNDArray for array in arrays)
            order = "F" if len(shape) > 1 and _all_fortran(arrays, shape) else "C"
            if result is None:
                result = new_array(shape, signature.outputs[0], order, on_device, place, stream)
            elif result.size:
                values = [
                    apart(value, [result], True, stream) if is_array(value) else value
                    for value in values
                ]
            if result.size:
                if len(arrays) < nin:
                    values = [
                        value if is_array(value) else as_scalar(value, dtype)
                        for value, dtype in zip(values, signature.inputs, strict=True)
                    ]
                launched = self._run(signature, operands, values, result, stream, place)
                if launched is not None and kinds is not None:
                    made = Made(shape, result.dtype, order, on_device) if wanted is None else None
                    numbers = [
                        None if is_array(value) else dtype
                        for value, dtype in zip(values, signature.inputs, strict=True)
                    ]
                    before, used = [*args[:nin], wanted], [*values, result]
                    self._plans.put(kinds, before, used, place, numbers, [made], launched)
            if wanted is not None:
                return wanted
            return result if arrays else result[()]
        except HaulageError as error:
            shorten(error)
            raise

    def _on_device(
        self,
        stream: StreamLike,
        inputs: Sequence[Any],
        wanted: Sequence[Any],
        kept: frozenset[int],
    ) -> list[Any]:
        return [self(*inputs, out=wanted[0], stream=stream)]

    def _signature(self, operands: tuple[Given, ...]) -> Signature:
        chosen = self._chosen.get(operands)
        if chosen is None:
            dtypes = tuple(each.dtype for each in operands)
            if self._is_dynamic:
                chosen = next((each for each in self._signatures if each.inputs == dtypes), None)
                if chosen is None:
                    chosen = signatures.inferred(
                        self._function, dtypes, self._kernels.vocabulary, self.__qualname__
                    )
                    self._signatures.append(chosen)
            else:
                chosen = choose(self._signatures, operands, narrow=False)
            if chosen is None:
                listed = ", ".join(map(str, dtypes))
                raise TypeError(
                    f"{self.__qualname__}: no matching signature for ({listed}); it has "
                    f"{', '.join(self.types)}; arrays are cast to it if that is safe"
                )
            self._chosen[operands] = chosen
        return chosen

    def _run(
        self,
        signature: Signature,
        operands: tuple[Given, ...],
        inputs: list[Any],
        out: Array,
        stream: StreamLike,
        place: Device,
    ) -> Launched | None:
        """Fill `out`; None if that was more than a launch with the operands themselves."""
        arrays = [*filter(is_array, inputs), out]
        if not all(array.shape == out.shape and is_plain(array) for array in arrays):
            return self._run_strided(signature, inputs, out, stream, place)
        arguments = [
            view(number, value, (out.size,), (value.dtype.itemsize,))
            if is_array(value)
            else Itself(number)
            for number, value in enumerate([*inputs, out])
        ]
        passed = arranged(arguments, [*inputs, out], stream)
        # That all are contiguous and aligned tells the rest of their kinds.
        kernel = self._plain_kernels.get((operands, out.dtype))
        if kernel is None:
            keys = [key(value, readonly=True) for value in passed[:-1]]
            keys.append(key(passed[-1], readonly=False))
            text = source.plain(
                [not is_array(value) for value in inputs], self._converted(signature, inputs)
            )
            kernel = self._kernel(signature, inputs, keys, text)
            self._plain_kernels[operands, out.dtype] = kernel
        threads = block_size(self._most_threads)
        grid = blocks(out.size, threads)
        launch(kernel, grid, (threads,), stream, place, passed[:-1], passed[-1:])
        return Launched(kernel, grid, (threads,), arguments, passed)

    def _run_strided(
        self,
        signature: Signature,
        inputs: list[Any],
        out: Array,
        stream: StreamLike,
        place: Device,
    ) -> Launched | None:
        # A copy of all the memory that it spans would not leave its gaps alone.
        goes_by_copy = isinstance(out, np.ndarray) and not in_place(place)
        if not has_whole_steps(out) or (goes_by_copy and memory_of(out, stream)[0].size > out.size):
            made = dense(out, stream)
            self._run_strided(signature, inputs, made, stream, place)
            if isinstance(out, DeviceNDArray):
                out.copy_to_device(made, stream)
            else:
                out[...] = made
            return None
        whole = [
            dense(value, stream) if is_array(value) and not has_whole_steps(value) else value
            for value in inputs
        ]
        arrays = [*filter(is_array, whole), out]
        sizes, strides = merged(
            out.shape, [broadcast_strides(a.shape, a.strides, out.shape) for a in arrays]
        )
        threads = block_size(self._most_threads)
        is_short = len(sizes) > 1 and sizes[-1] < _SHORT_ROW <= threads
        width = _SHORT_BLOCK if is_short else threads
        across = blocks(sizes[-1], width)
        block = (width, threads // width)

        remaining = iter(strides)
        arguments: list[Argument] = [
            Constant(np.uint64(across)),
            Constant(tuple(map(np.uint64, sizes))),
        ]
        keys: list[Key] = [SIZE, sizes_key(len(sizes))]
        walks = []
        for number, value in enumerate([*whole, out]):
            if not is_array(value):
                arguments.append(Itself(number))
                keys.append(key(value, readonly=True))
                walks.append(source.NUMBER)
                continue
            memory, first = memory_of(value, stream)
            steps = [step // value.dtype.itemsize for step in next(remaining)]
            # Negative ones wrap around, as all of the kernel's arithmetic on places does.
            places = tuple(np.uint64(step % 2**64) for step in [first, *steps])
            arguments += [Memory(number), Constant(places)]
            keys += [key(memory, readonly=value is not out), sizes_key(len(steps) + 1)]
            walks.append({1: source.UNIT, 0: source.REPEATED}.get(steps[-1], source.ANY))
        text = source.strided(walks, len(sizes), self._converted(signature, whole))
        kernel = self._kernel(signature, whole, keys, text)
        grid = across * blocks(out.size // sizes[-1], block[1])
        passed = arranged(arguments, [*whole, out], stream)
        launch(kernel, grid, block, stream, place, passed[:-2], passed[-2:])
        if any(own is not value for own, value in zip(whole, inputs, strict=True)):
            return None
        return Launched(kernel, grid, block, arguments, passed)

    def _kernel(
        self, signature: Signature, inputs: Sequence[Any], keys: Sequence[Key], text: str
    ) -> Kernel:
        dtypes = [*signature.inputs, signature.outputs[0]]

        def make() -> Callable[..., Any]:
            conversions = {f"to{number}": dtype.type for number, dtype in enumerate(dtypes)}
            name = f"vectorize({self.__qualname__})"
            return source.function(text, self._function, conversions, name)

        return self._kernels.get(tuple(keys), (text, signature.inputs, signature.outputs), make)

    def _converted(self, signature: Signature, inputs: Sequence[Any]) -> list[bool]:
        """For each input and the result, whether it has another dtype than the signature says."""
        dtypes = [*signature.inputs, signature.outputs[0]]
        now = [*(value.dtype for value in inputs), signature.detail]
        return [one != other for one, other in zip(dtypes, now, strict=True)]

    @brief_errors
    def reduce(self, arg: Any, stream: StreamLike = 0) -> Any:
        """The function of all elements of an array with one axis, which it combines in their order.

        It has to be associative, and need not be commutative.

        Args:
            arg: an array of the host or a device.
            stream: in which it happens.

        Returns:
            A NumPy scalar of the dtype that the function gives; `identity` for no elements.

        Raises:
            TypeError: the array has more axes or none, the function has not two arguments, gives
                another dtype than it takes, or there are no elements and no identity.
        """
        name = f"{self.__qualname__}.reduce"
        if self.nin != 2:
            raise TypeError(f"{name}: only a binary function can; this one takes {self.nin}")
        if moving.is_mover(arg) and len(arg.shape) == 1:
            place = device_of(stream) or current_device()
            arg = read_in(for_work(stream, place), arg, f"ufunc {name}")
        x = operand(arg, stream, name)
        if not is_array(x) or x.ndim != 1:
            raise TypeError(f"{name}: {arg!r}: expected an array with one axis")
        signature = self._signature((given(x), given(x)))
        dtype = signature.outputs[0]
        if dtype != x.dtype:
            like = Given(dtype, given(x).kind)
            signature = self._signature((like, like))
            if signature.outputs[0] != dtype:
                raise TypeError(f"{name}: {x.dtype} gives {dtype}, which gives another dtype")
        if not x.size:
            if self.identity is None:
                raise TypeError(f"{name}: Reduction on an empty array, and no identity was given")
            return dtype.type(self.identity)
        x = cast(x, dtype, self._kernels.vocabulary, stream)
        place = place_of([x], stream, name)
        x = fold(
            x,
            self._function,
            (*signature.inputs, dtype),
            self._converted(signature, [x, x]),
            self._kernels,
            self._most_threads,
            name,
            stream,
            place,
        )
        return x.getitem(0, stream) if isinstance(x, DeviceNDArray) else x[0]

    def __repr__(self) -> str:
        return f"<{self._kernels.vocabulary.name} ufunc {self.__qualname__}>"


def cast(value: Array, dtype: np.dtype[Any], vocabulary: Vocabulary, stream: StreamLike) -> Array:
    """An array as one of another dtype, where it is; itself if it has that dtype."""
    if value.dtype == dtype:
        return value
    if isinstance(value, np.ndarray):
        return value.astype(dtype)
    made = new_array(value.shape, dtype, "C", True, value.device, stream)
    copy = _COPIES.setdefault(vocabulary.name, UFunc(_itself, vocabulary))
    copy(value, out=made, stream=stream)
    return made


def _itself(element: Any) -> Any:
    return element


_COPIES: dict[str, UFunc] = {}


def _count_parameters(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    by_position = [each for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
    others = [each for each in parameters if each.kind > each.POSITIONAL_OR_KEYWORD]
    # A keyword-only parameter always has its default, as a ufunc gives arguments by position.
    if not by_position or any(each.default is each.empty for each in others):
        raise TypeError(
            f"vectorize: {function.__qualname__} must take one or more arguments by position, and "
            "no others without a default"
        )
    return len(by_position)


def _check_result(result: Array, shape: tuple[int, ...], signature: Signature, name: str) -> None:
    if result.shape != shape:
        raise ShapeMismatch(f"{name}: out has shape {result.shape}; expected {shape}")
    dtype = signature.outputs[0]
    if not np.can_cast(dtype, result.dtype, "same_kind"):
        raise TypeError(f"{name}: out has dtype {result.dtype}; the result's is {dtype}")


def _all_fortran(arrays: Sequence[Array], shape: tuple[int, ...]) -> bool:
    return all(
        array.shape == shape and not array.is_c_contiguous() and array.is_f_contiguous()
        if isinstance(array, DeviceNDArray)
        else array.shape == shape and array.flags.fnc
        for array in arrays
    )
