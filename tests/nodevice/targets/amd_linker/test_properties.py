"""Random modules: Haulage's linker for AMD's GPUs makes of them what LLVM's does, and the loader
finds in it what the module says."""

import struct
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import amd_loader
from doubles.amd_linked import assert_as_lld
from haulage.targets.amd_linker import link
from support.amd_objects import ARCHITECTURES, amd_object, tool

LINKAGES = ("", "protected", "weak", "hidden", "internal", "linkonce_odr")
EXPORTED = ("", "protected", "weak", "linkonce_odr")


@dataclass(frozen=True)
class Variable:
    """A variable of 32-bit ints, in the GPU's memory or constant; or, with `of`, the address of
    another one's element."""

    name: str
    linkage: str
    space: int
    values: tuple[int, ...]
    align: int
    of: int | None

    def line(self, variables: "list[Variable]") -> str:
        kind = "constant" if self.space == 4 else "global"
        if self.of is not None:
            other = variables[self.of % len(variables)]
            place = f"ptr addrspace({other.space}) @{other.name}"
            at = f"getelementptr (i8, {place}, i64 {4 * (self.of % len(other.values))})"
            what = f"ptr addrspace({other.space}) {at}"
        elif any(self.values):
            listed = ", ".join(f"i32 {value}" for value in self.values)
            what = f"[{len(self.values)} x i32] [{listed}]"
        else:
            what = f"[{len(self.values)} x i32] zeroinitializer"
        # In pointers of their own size, so that all linkages can be read from outside.
        return (
            f"@{self.name} = {self.linkage} addrspace({self.space}) {kind} {what}, "
            f"align {max(self.align, 8)}"
        )


def _variable(number: int):
    return st.builds(
        Variable,
        st.just(f"v{number}"),
        st.sampled_from(LINKAGES),
        st.sampled_from([1, 4]),
        st.one_of(
            st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9).map(tuple),
            st.integers(1, 3000).map(lambda count: (0,) * count),
        ),
        st.sampled_from([4, 8, 16, 64, 256, 4096]),
        st.one_of(st.none(), st.integers(0, 50)),
    )


@st.composite
def modules(draw):
    """(text, variables, names of kernels, names of functions that others see)."""
    count = draw(st.integers(0, 8))
    variables = [draw(_variable(number)) for number in range(count)]
    linkages = draw(st.lists(st.sampled_from(LINKAGES), max_size=3))
    functions = [f"f{number}" for number in range(len(linkages))]
    kernels = [f"k{number}" for number in range(draw(st.integers(1, 4)))]
    lines = [variable.line(variables) for variable in variables]
    for name, linkage in zip(functions, linkages, strict=True):
        lines += [
            f"define {linkage} i32 @{name}(i32 %x) noinline {{",
            f"  %y = add i32 %x, {draw(st.integers(0, 1000))}",
            "  ret i32 %y",
            "}",
        ]
    for name in kernels:
        lines.append(f"define amdgpu_kernel void @{name}(ptr addrspace(1) %p, i32 %n) {{")
        used = draw(st.lists(st.integers(0, 50), max_size=5)) if variables else []
        for i, which in enumerate(used):
            each = variables[which % count]
            lines.append(f"  %v{i} = load volatile i32, ptr addrspace({each.space}) @{each.name}")
        for i, function in enumerate(functions):
            lines.append(f"  %f{i} = call i32 @{function}(i32 %n)")
            lines.append(f"  store volatile i32 %f{i}, ptr addrspace(1) %p")
        lines += ["  ret void", "}"]
    kept = ("", "protected", "weak")
    seen = [name for name, each in zip(functions, linkages, strict=True) if each in kept]
    return "\n".join(lines), variables, kernels, seen


ARCHITECTURE = st.sampled_from(ARCHITECTURES)
# Without LLVM's passes, which take away what nobody can see.
LEVEL = st.sampled_from([0, 2])


@settings(max_examples=60, deadline=None)
@given(modules(), ARCHITECTURE, LEVEL)
def test_random_modules_become_what_llvms_linker_makes(tmp_path_factory, made, architecture, level):
    program = tool("ld.lld")
    code = amd_object(made[0], architecture, level=level)
    assert_as_lld(code, tmp_path_factory.mktemp("linked"), program)


@settings(max_examples=100, deadline=None)
@given(modules(), ARCHITECTURE, LEVEL, st.integers(1, 2**34).map(lambda page: 4096 * page))
def test_the_loader_finds_what_random_modules_say(made, architecture, level, base):
    text, variables, kernels, functions = made
    loaded = amd_loader.load(link(amd_object(text, architecture, level=level)), base)
    assert loaded.kernels.keys() == set(kernels)
    for kernel in kernels:
        assert loaded.entry(kernel) == loaded.functions[kernel].address
    kept = {each.name for each in variables if each.linkage in EXPORTED}
    # What may be left out if nobody in the module uses it.
    unused = {each.name for each in variables if each.linkage == "linkonce_odr"}
    assert kept - unused <= loaded.variables.keys() <= kept
    assert loaded.functions.keys() >= {*functions}
    for each in variables:
        if each.name not in loaded.variables:
            continue
        found = loaded.variables[each.name]
        assert found.address % max(each.align, 8) == 0
        if each.of is None:
            content = loaded.read(found.address, found.nbytes)
            assert content == struct.pack(f"<{len(each.values)}i", *each.values)
            continue
        other = variables[each.of % len(variables)]
        if other.name in loaded.variables:
            at = 4 * (each.of % len(other.values))
            assert loaded.word(found.address) == loaded.variables[other.name].address + at
