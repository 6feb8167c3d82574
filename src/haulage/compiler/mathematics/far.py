"""What functions do with arguments that straight code does not reach: they ask the C library.

Trigonometric ones do so beyond `trigonometry.FAR`, remainders where the quotient has too many bits.

That is a branch which hardly any thread takes. LLVM widens it by calling, instead of a function of
one number, one of a vector and a mask, which it is told of (the vector function ABI): this looks
whether any lane is set before it does anything.
"""

from collections.abc import Iterable

# The vectors that there are functions for; LLVM chooses how many lanes it needs.
WIDTHS = (2, 4, 8, 16, 32, 64)


def name(function: str, kind: str) -> str:
    """What a branch calls: a function of one number."""
    return f"haulage.far.{function}.{'f32' if kind == 'float' else 'f64'}"


def variants(function: str, kind: str, count: int) -> str:
    """The attribute of a call of so many arguments that tells of the vector functions."""
    own = name(function, kind)
    listed = ",".join(f"_ZGV_LLVM_M{n}{'v' * count}_{own}({own}.{n})" for n in WIDTHS)
    return f'"vector-function-abi-variant"="{listed}"'


def declarations(wanted: Iterable[tuple[str, str, int]]) -> list[str]:
    """The C library's functions that `definitions` calls for some (function, type, number of
    arguments), and what it asks lanes by, as LLVM declares them."""
    made = [_LIBRARY.format(**_given(*each)) for each in wanted]
    return made + [_ANY.format(n=n) for n in WIDTHS]


def _given(function: str, kind: str, count: int) -> dict[str, str]:
    library = function if kind == "double" else f"{function}f"
    kinds = ", ".join([kind] * count)
    return {"own": name(function, kind), "library": library, "kind": kind, "kinds": kinds}


def definitions(wanted: Iterable[tuple[str, str, int]]) -> str:
    """LLVM text of all these functions for some (function, type, number of arguments)."""
    parts = []
    kept = []
    for function, kind, count in wanted:
        own = name(function, kind)
        names = "xy"[:count]

        def listed(kind: str, stem: str = "", names: str = names) -> str:
            return ", ".join(f"{kind} %{stem}{each}" for each in names)

        given = _given(function, kind, count)
        parts.append(_SCALAR.format(**given, numbers=listed(kind)))
        # Its parameters stay those that the functions of vectors have, also if one is a constant.
        kept.append(f"ptr @{own}")
        for n in WIDTHS:
            vector, mask = f"<{n} x {kind}>", f"<{n} x i1>"
            ones = "\n".join(
                f"  %one.{each} = extractelement {vector} %{each}, i32 %i" for each in names
            )
            vectors = {"vectors": listed(vector), "ones": ones, "each": listed(kind, "one.")}
            parts.append(_VECTOR.format(**given, **vectors, n=n, vector=vector, mask=mask))
            kept.append(f"ptr @{own}.{n}")
    # LLVM may not drop what nothing calls yet.
    parts.append(f'{_KEPT}[{len(kept)} x ptr] [{", ".join(kept)}], section "llvm.metadata"')
    return "\n".join(parts)


def settled(text: str) -> str | None:
    """A widened module's text in which vector functions that nothing calls need not stay; None if
    it has none of them."""
    lines = text.splitlines()
    kept = [line for line in lines if not line.startswith(_KEPT)]
    return "\n".join(kept) if len(kept) < len(lines) else None


_KEPT = "@llvm.compiler.used = appending global "

_ANY = "declare i1 @llvm.vector.reduce.or.v{n}i1(<{n} x i1>)"

_LIBRARY = "declare {kind} @{library}({kinds}) nounwind willreturn memory(none)"

_SCALAR = """
define internal {kind} @{own}({numbers}) noinline cold nounwind willreturn memory(none) {{
  %result = call {kind} @{library}({numbers})
  ret {kind} %result
}}"""

_VECTOR = """
define internal {vector} @{own}.{n}({vectors}, {mask} %lanes) alwaysinline nounwind willreturn
    memory(none) {{
entry:
  %any = call i1 @llvm.vector.reduce.or.v{n}i1({mask} %lanes)
  br i1 %any, label %some, label %none, !prof !{{!"branch_weights", i32 1, i32 2000}}
some:
  %given = call {vector} @{own}.{n}.lanes({vectors}, {mask} %lanes)
  ret {vector} %given
none:
  ret {vector} %x
}}
define internal {vector} @{own}.{n}.lanes({vectors}, {mask} %lanes) noinline cold nounwind
    willreturn memory(none) {{
entry:
  br label %lane
lane:
  %i = phi i32 [ 0, %entry ], [ %i.next, %after ]
  %all = phi {vector} [ %x, %entry ], [ %now, %after ]
  %on = extractelement {mask} %lanes, i32 %i
  br i1 %on, label %work, label %after
work:
{ones}
  %made = call {kind} @{library}({each})
  %changed = insertelement {vector} %all, {kind} %made, i32 %i
  br label %after
after:
  %now = phi {vector} [ %all, %lane ], [ %changed, %work ]
  %i.next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i.next, {n}
  br i1 %more, label %lane, label %end
end:
  ret {vector} %now
}}"""
