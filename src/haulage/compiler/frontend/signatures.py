"""Signatures that users write, as Numba's types."""

from typing import Any

import numpy as np
from numba.core import sigutils, types
from numba.np import numpy_support

from haulage.errors import SignatureError


def parse_signature(signature: Any, maker: str = "CUDA") -> tuple[Any, ...]:
    """Numba argument types of a kernel's signature, which `parse_function_signature` reads.

    `maker` is whose the kernel is, for the error.

    Raises:
        SignatureError: something in it names no type, or it returns a value.
    """
    arguments, returned = parse_function_signature(signature)
    if returned is not None:
        raise SignatureError(
            f"{maker} kernel must have void return type but got {returned}, in the signature "
            f"{signature}"
        )
    return arguments


def parse_function_signature(signature: Any) -> tuple[tuple[Any, ...], Any]:
    """`parse_declaration`, with None for the result too if that is void.

    Raises:
        SignatureError: something in it names no type.
    """
    arguments, returned = parse_declaration(signature)
    return arguments, None if returned == types.none else returned


def parse_declaration(signature: Any) -> tuple[tuple[Any, ...], Any]:
    """Numba types of a signature's arguments, and of its result: None if that is not said.

    Takes Numba's signatures and strings (`"void(float32[:], int64)"`) and tuples of Numba types,
    type strings, NumPy dtypes or scalar classes.

    Raises:
        SignatureError: something in it names no type.
    """

    def one(item: Any) -> Any:
        if isinstance(item, types.Type):
            return item
        if isinstance(item, str):
            return sigutils._parse_signature_string(item)
        refuse_value(item)
        return numpy_support.from_dtype(np.dtype(item))

    def refuse_value(item: Any) -> None:
        # NumPy takes the `dtype` of anything for the dtype meant, and None for float64.
        if item is None:
            raise SignatureError("the signature has None in it, which is no type of an argument")
        if hasattr(item, "dtype") and not isinstance(item, (type, types.Type)):
            raise SignatureError(
                f"the signature has a value in it, of class {type(item).__name__}; expected types "
                "of arguments: that of a value is numba.typeof(value)"
            )

    if signature is not None:
        refuse_value(signature)
    try:
        if isinstance(signature, (tuple, list)):
            return tuple(one(item) for item in signature), None
        arguments, returned = sigutils.normalize_signature(signature)
    except SignatureError:
        raise
    except (SyntaxError, NameError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SignatureError(f"the signature {signature!r} cannot be read: {error}") from error
    except NotImplementedError as error:
        # Numba calls what it finds by a name.
        raise SignatureError(
            f"the signature {signature!r} cannot be read: something in it names no type"
        ) from error
    return tuple(arguments), returned


def declared_signature(signature: Any) -> Any:
    """Numba's form of a signature which says what the function returns.

    Raises:
        TypeError: it does not say that, or something in it names no type.
    """
    arguments, returned = parse_declaration(signature)
    if returned is None:
        raise SignatureError(
            f"Return type must be provided for device declarations; got {signature!r}, write for "
            "example 'int32(float32[:])'"
        )
    return returned(*arguments)
