"""Numba's front end, set up for kernels; importing this package imports Numba."""

from haulage import importing_numba  # noqa: F401

# isort: split
from haulage.compiler.frontend.lower import (
    Lowered,
    LoweredFunction,
    compile_function,
    function_text,
    lower,
    lower_function,
    result_type,
)
from haulage.compiler.frontend.signatures import (
    declared_signature,
    parse_declaration,
    parse_function_signature,
    parse_signature,
)
from haulage.compiler.frontend.target import descriptor
from haulage.compiler.options import Options

__all__ = [
    "Lowered",
    "LoweredFunction",
    "Options",
    "compile_function",
    "declared_signature",
    "descriptor",
    "function_text",
    "lower",
    "lower_function",
    "parse_declaration",
    "parse_function_signature",
    "parse_signature",
    "result_type",
]
