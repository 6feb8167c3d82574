"""What the builder of functions writes: loops with carried values, conditions, names by hints."""

import ctypes

import llvmlite.binding as binding

from haulage.compiler import llvm
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.cpu import host


def _called(builder, *values):
    """What the function gives for some i64."""
    module = llvm.parse(definition(builder.function))
    llvm.machine(host())
    target = binding.Target.from_default_triple().create_target_machine()
    with binding.create_mcjit_compiler(module, target) as engine:
        engine.finalize_object()
        kinds = [ctypes.c_int64] * (len(values) + 1)
        function = ctypes.CFUNCTYPE(*kinds)(engine.get_function_address(builder.function.name))
        return function(*values)


def _open(name):
    b = Builder(name, [("i64", "%n")], "i64", linkage="")
    b.block("%start")
    return b


def test_a_counted_loop_carries_values():
    b = _open("sum_of_every_third")
    with b.loop("each", "%n", step=3) as loop:
        total = loop.carry("i64", "0", "total")
        total = loop.set(total, b.binary("add", "i64", total, loop.index))
    b.ret("i64", total)
    assert _called(b, 10) == 0 + 3 + 6 + 9
    assert _called(b, 1) == 0


def test_what_is_done_where_a_condition_holds_stands_in_a_block_of_its_own():
    b = _open("even_below")
    found = b.allocate("i64")
    b.store("i64", "0", found)
    with b.loop("each", "%n") as loop:
        last_bit = b.binary("and", "i64", loop.index, "1")
        with b.when(b.compare("eq", "i64", last_bit, "0"), "even"):
            b.store("i64", b.binary("add", "i64", b.load("i64", found), "1"), found)
    b.ret("i64", b.load("i64", found))
    assert [_called(b, count) for count in (1, 2, 7)] == [1, 1, 4]


def test_loops_within_loops_have_names_of_their_own():
    b = _open("pairs")
    with b.loop("each", "%n") as rows:
        outer = rows.carry("i64", "0", "total")
        with b.loop("each", "%n") as columns:
            inner = columns.carry("i64", outer, "total")
            inner = columns.set(inner, b.binary("add", "i64", inner, columns.index))
        outer = rows.set(outer, inner)
    b.ret("i64", outer)
    assert list(b.function.blocks) == ["%start", "%each", "%each1", "%each.out1", "%each.out"]
    assert _called(b, 4) == 4 * (1 + 2 + 3)


def test_numbers_are_rounded_up_to_multiples():
    b = _open("rounded")
    b.ret("i64", b.round_up("%n", "16"))
    assert [_called(b, number) for number in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_an_instruction_is_made_alone_or_at_the_end_of_a_function():
    item = Builder.binary("add", "i64", "%n", "1", "nuw", name="%more")
    assert item.text == "%more = add nuw i64 %n, 1"
    b = _open("more")
    names = [b.add(item), *(b.binary("add", "i64", "%n", "2", name=name) for name in ("more", ""))]
    assert names == ["%more", "%more1", "%v.1"]
    assert b.store("i64", "%n", "%p") == b.call("void", "f", ()) == ""
    assert [each.result for each in b.function.blocks["%start"].body] == [*names, None, None]
