"""Linking host objects without LLVM, for programs that never load it."""

import ctypes
import struct

import numpy as np
import pytest

from haulage.backends.cpu_driver import elf, linker, loader
from haulage.backends.cpu_driver.linker import CannotLink
from nodevice.backends.cpu_driver.cpu_objects import KERNELS, host_object

pytestmark = pytest.mark.skipif(not linker.is_possible(), reason="not on this kind of system")


def called(linked, name, *args, result=ctypes.c_int64):
    kinds = [ctypes.c_double if isinstance(arg, float) else ctypes.c_int64 for arg in args]
    return ctypes.CFUNCTYPE(result, *kinds)(linked[name])(*args)


def linked(ir, find=linker.address_of):
    return linker.link(host_object(ir), find)


def test_calls_go_within_the_object_and_far_out_of_it():
    made = linked("""
    declare double @cos(double)
    declare double @pow(double, double)
    define double @f(double %x) { %y = call double @g(double %x)
      %z = call double @cos(double %y)
      ret double %z }
    define internal double @g(double %x) noinline { %y = call double @pow(double %x, double 3.5)
      ret double %y }
    """)
    assert called(made, "f", 1.25, result=ctypes.c_double) == np.cos(1.25**3.5)
    made.close()


def test_what_an_object_writes_to_is_its_own():
    text = """
    @count = internal global i64 40
    @zeros = internal global [5000 x i64] zeroinitializer, align 64
    @table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 64
    @far = global ptr @count
    define i64 @next() {
      %p = load ptr, ptr @far
      %old = load i64, ptr %p
      %new = add i64 %old, 1
      store i64 %new, ptr %p
      %at = getelementptr [5000 x i64], ptr @zeros, i64 0, i64 %new
      %z = load i64, ptr %at
      %index = and i64 %new, 3
      %in = getelementptr [4 x i64], ptr @table, i64 0, i64 %index
      %t = load i64, ptr %in
      %sum = add i64 %z, %t
      store i64 %new, ptr %at
      ret i64 %sum
    }"""
    first, second = linked(text), linked(text)
    assert [called(first, "next") for _ in range(4)] == [5, 7, 11, 3]
    assert called(second, "next") == 5
    for made in (first, second):
        made.close()


def test_symbols_come_from_who_is_asked():
    given = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 3 * x)
    address = ctypes.cast(given, ctypes.c_void_p).value
    made = linked(
        "declare i64 @other(i64)\n"
        "define i64 @f(i64 %x) { %y = call i64 @other(i64 %x)\n %z = add i64 %y, 1\n ret i64 %z }",
        {"other": address}.get,
    )
    assert called(made, "f", 14) == 43
    made.close()


@pytest.mark.parametrize(
    ("ir", "why"),
    [
        (
            "declare void @nobody.has()\ndefine void @f() { call void @nobody.has()\n ret void }",
            "no",
        ),
        ("@t = thread_local global i64 1\ndefine ptr @f() { ret ptr @t }", "thread-local"),
        ("@c = common global i64 0\ndefine ptr @f() { ret ptr @c }", "no section"),
    ],
)
def test_what_is_not_known_is_left_to_llvm(ir, why):
    with pytest.raises(CannotLink, match=why):
        linked(ir)


def test_an_object_of_another_machine_is_refused():
    code = bytearray(host_object(KERNELS))
    struct.pack_into("<H", code, 18, 183)
    with pytest.raises(CannotLink):
        linker.link(bytes(code), linker.address_of)
    assert elf.machine(bytes(code)) == 183


def test_the_loader_falls_back_to_llvm(monkeypatch):
    monkeypatch.setattr(loader, "_llvm_is_loaded", lambda: False)
    place = loader.Loader()
    text = "define i64 @f(i64 %x) { %y = add i64 %x, 2\n ret i64 %y }"
    assert isinstance(loader.link(["f"], host_object(text), []), linker.Linked)
    common = "@c = common global i64 0\ndefine ptr @f() { ret ptr @c }"
    made = loader.link(["f"], host_object(common), [])
    assert not isinstance(made, linker.Linked)
    module = place.load(host_object(text))
    assert called({"f": place.function(module, "f")}, "f", 40) == 42
    place.unload(module)
