"""Short vectors: `float4(x, y, z, w)` and its kin, each with CUDA's name and one by its bits."""

from typing import Any

from haulage.lang.word import Word

# The words; a vocabulary has them all.
__all__ = [
    "int8x1",
    "char1",
    "int8x2",
    "char2",
    "int8x3",
    "char3",
    "int8x4",
    "char4",
    "int16x1",
    "short1",
    "int16x2",
    "short2",
    "int16x3",
    "short3",
    "int16x4",
    "short4",
    "int32x1",
    "int1",
    "int32x2",
    "int2",
    "int32x3",
    "int3",
    "int32x4",
    "int4",
    "int64x1",
    "long1",
    "longlong1",
    "int64x2",
    "long2",
    "longlong2",
    "int64x3",
    "long3",
    "longlong3",
    "int64x4",
    "long4",
    "longlong4",
    "uint8x1",
    "uchar1",
    "uint8x2",
    "uchar2",
    "uint8x3",
    "uchar3",
    "uint8x4",
    "uchar4",
    "uint16x1",
    "ushort1",
    "uint16x2",
    "ushort2",
    "uint16x3",
    "ushort3",
    "uint16x4",
    "ushort4",
    "uint32x1",
    "uint1",
    "uint32x2",
    "uint2",
    "uint32x3",
    "uint3",
    "uint32x4",
    "uint4",
    "uint64x1",
    "ulong1",
    "ulonglong1",
    "uint64x2",
    "ulong2",
    "ulonglong2",
    "uint64x3",
    "ulong3",
    "ulonglong3",
    "uint64x4",
    "ulong4",
    "ulonglong4",
    "float32x1",
    "float1",
    "float32x2",
    "float2",
    "float32x3",
    "float3",
    "float32x4",
    "float4",
    "float64x1",
    "double1",
    "float64x2",
    "double2",
    "float64x3",
    "double3",
    "float64x4",
    "double4",
]

_CUDA_NAMES = {
    "int8": ("char",),
    "int16": ("short",),
    "int32": ("int",),
    "int64": ("long", "longlong"),
    "float32": ("float",),
    "float64": ("double",),
}


class Vector(Word):
    """The word that makes vectors of `count` elements of a Numba type named `element`.

    Where a dtype is asked for it names the vectors' type.
    """

    def __init__(self, element: str, count: int) -> None:
        def build(tools: Any, *parts: Any) -> Any:
            return _build(tools, self, parts)

        fields = ", ".join("xyzw"[:count])
        name = f"{element}x{count}"
        build.__doc__ = (
            f"`{name}({fields})`: a vector of {count} {element}, with the fields {fields}.\n\n"
            f"Vectors of {element} may stand for the fields that they have together."
        )
        super().__init__(name, build)
        self.element = element
        self.count = count
        unsigned = "u" if element.startswith("u") else ""
        # CUDA's own names.
        self.aliases = tuple(
            f"{unsigned}{name}{count}" for name in _CUDA_NAMES[element.removeprefix("u")]
        )


def _build(tools: Any, word: Vector, parts: tuple[Any, ...]) -> Any:
    types = tools.types
    kind = tools.VectorType(getattr(types, word.element), word.count)
    count = 0
    for part in parts:
        if isinstance(part, tools.VectorType) and part.base_type == kind.base_type:
            count += part.num_elements
        elif isinstance(part, (types.Integer, types.Float, types.Boolean)):
            count += 1
        else:
            raise tools.TypingError(
                f"{word.__name__}(...): expected real numbers or vectors of {word.element}; "
                f"got {part}"
            )
    if count != word.count:
        raise tools.TypingError(
            f"{word.__name__}(...): expected {word.count} elements in all; got {count}"
        )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        elements: list[Any] = []
        values = tools.cgutils.unpack_tuple(builder, args[0], len(parts))
        for part, value in zip(sig.args[0], values, strict=True):
            if isinstance(part, tools.VectorType):
                elements += tools.cgutils.unpack_tuple(builder, value, part.num_elements)
            else:
                elements.append(context.cast(builder, value, part, kind.base_type))
        made = tools.cgutils.create_struct_proxy(kind)(context, builder)
        for field, element in zip(kind.attr_names, elements, strict=True):
            setattr(made, field, element)
        return made._getvalue()

    return kind(types.StarArgTuple(parts)), generate


int8x1 = char1 = Vector("int8", 1)
int8x2 = char2 = Vector("int8", 2)
int8x3 = char3 = Vector("int8", 3)
int8x4 = char4 = Vector("int8", 4)
int16x1 = short1 = Vector("int16", 1)
int16x2 = short2 = Vector("int16", 2)
int16x3 = short3 = Vector("int16", 3)
int16x4 = short4 = Vector("int16", 4)
int32x1 = int1 = Vector("int32", 1)
int32x2 = int2 = Vector("int32", 2)
int32x3 = int3 = Vector("int32", 3)
int32x4 = int4 = Vector("int32", 4)
int64x1 = long1 = longlong1 = Vector("int64", 1)
int64x2 = long2 = longlong2 = Vector("int64", 2)
int64x3 = long3 = longlong3 = Vector("int64", 3)
int64x4 = long4 = longlong4 = Vector("int64", 4)
uint8x1 = uchar1 = Vector("uint8", 1)
uint8x2 = uchar2 = Vector("uint8", 2)
uint8x3 = uchar3 = Vector("uint8", 3)
uint8x4 = uchar4 = Vector("uint8", 4)
uint16x1 = ushort1 = Vector("uint16", 1)
uint16x2 = ushort2 = Vector("uint16", 2)
uint16x3 = ushort3 = Vector("uint16", 3)
uint16x4 = ushort4 = Vector("uint16", 4)
uint32x1 = uint1 = Vector("uint32", 1)
uint32x2 = uint2 = Vector("uint32", 2)
uint32x3 = uint3 = Vector("uint32", 3)
uint32x4 = uint4 = Vector("uint32", 4)
uint64x1 = ulong1 = ulonglong1 = Vector("uint64", 1)
uint64x2 = ulong2 = ulonglong2 = Vector("uint64", 2)
uint64x3 = ulong3 = ulonglong3 = Vector("uint64", 3)
uint64x4 = ulong4 = ulonglong4 = Vector("uint64", 4)
float32x1 = float1 = Vector("float32", 1)
float32x2 = float2 = Vector("float32", 2)
float32x3 = float3 = Vector("float32", 3)
float32x4 = float4 = Vector("float32", 4)
float64x1 = double1 = Vector("float64", 1)
float64x2 = double2 = Vector("float64", 2)
float64x3 = double3 = Vector("float64", 3)
float64x4 = double4 = Vector("float64", 4)
