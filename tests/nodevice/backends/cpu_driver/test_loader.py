"""Linking host objects, and what is said of those that can't be."""

import ctypes
import ctypes.util
import threading

import pytest

from haulage.backends.cpu_driver import elf
from haulage.backends.cpu_driver.loader import Loader
from haulage.errors import DeviceError
from nodevice.backends.cpu_driver.cpu_objects import KERNELS, host_object


def call(address, *args):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(address)(*args)


def adds(n):
    return host_object(f"define i64 @f(i64 %x) {{\n %y = add i64 %x, {n}\n ret i64 %y\n}}")


def test_the_symbol_table_tells_exports_from_needs():
    ir = """
    declare double @cos(double)
    define double @f(double %x) { %y = call double @cos(double %x)
      ret double %y }
    define internal void @hidden() noinline { ret void }
    define weak_odr void @weak() { call void @hidden()
      ret void }
    @data = global i64 3
    """
    exported, missing = elf.symbols(host_object(ir))
    assert sorted(exported) == ["f", "weak"]
    assert missing == ["cos"]
    assert sorted(elf.symbols(host_object(KERNELS))[0]) == ["count", "fault", "spin"]


def test_functions_of_the_process_are_found():
    ir = """
    declare double @cos(double)
    define i64 @f(i64 %x) {
      %d = sitofp i64 %x to double
      %c = call double @cos(double %d)
      %i = fptosi double %c to i64
      ret i64 %i
    }"""
    loader = Loader()
    module = loader.load(host_object(ir))
    assert call(loader.function(module, "f"), 0) == 1
    loader.unload(module)


@pytest.mark.skipif(ctypes.util.find_library("mvec") is None, reason="no libmvec on this system")
def test_vector_mathematics_is_provided():
    ir = """
    declare <2 x double> @_ZGVbN2v_exp(<2 x double>)
    define i64 @f() {
      %v = call <2 x double> @_ZGVbN2v_exp(<2 x double> zeroinitializer)
      %d = extractelement <2 x double> %v, i64 1
      %i = fptosi double %d to i64
      ret i64 %i
    }"""
    loader = Loader()
    assert call(loader.function(loader.load(host_object(ir)), "f")) == 1


def test_a_symbol_that_nobody_has_is_named_at_the_load():
    ir = "declare i64 @hl_nobody(i64)\ndefine i64 @f(i64 %x) {\n"
    ir += " %y = call i64 @hl_nobody(i64 %x)\n ret i64 %y\n}"
    loader = Loader()
    with pytest.raises(DeviceError, match=r"nobody has hl_nobody: .*symbols"):
        loader.load(host_object(ir))
    module = loader.load(adds(5))
    assert call(loader.function(module, "f"), 1) == 6


@pytest.mark.parametrize("cut", [70, 300, -64, -8])
def test_damaged_objects_are_refused(cut):
    with pytest.raises(DeviceError, match=r"damaged|did not take"):
        Loader().load(adds(1)[:cut])


@pytest.mark.parametrize("code", [b"", b"no code", b"MZ" + bytes(200), b"\x7fELF\x01\x01" * 40])
def test_what_is_no_object_is_refused(code):
    with pytest.raises(DeviceError, match="64-bit little-endian ELF"):
        Loader().load(code)


def test_unknown_names_and_modules_are_errors():
    loader = Loader()
    module = loader.load(host_object(KERNELS))
    with pytest.raises(DeviceError, match=r"no function 'nothing'; it has count, fault, spin"):
        loader.function(module, "nothing")
    loader.unload(module)
    for use in (lambda: loader.function(module, "count"), lambda: loader.unload(module)):
        with pytest.raises(DeviceError, match=f"no module {module}"):
            use()


def test_many_modules_with_one_name_from_many_threads():
    loader, results = Loader(), {}

    def load(n):
        module = loader.load(adds(n))
        results[n] = call(loader.function(module, "f"), 1000)
        loader.unload(module)

    for n in range(16):
        adds(n)
    threads = [threading.Thread(target=load, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 1000 + n for n in range(16)}
