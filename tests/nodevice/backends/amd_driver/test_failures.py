"""Each call of the HIP runtime that the AMD back end makes fails once: it is told by its name and
what was asked, nothing stays behind, and the next try goes well."""

import json

import pytest

from haulage.backends.amd_driver.library import SIGNATURES, SINCE
from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

# By the version of ROCm: what is not called there.
_OTHERS = {5: set(SINCE), 7: {"hipGetDeviceProperties", "hipStreamAddCallback"}}
# It cannot fail; and of the device that is current there is a test of its own.
_NOT_TRIED = {"hipGetLastError", "hipGetDevice"}


@pytest.mark.parametrize("rocm", [5, 7])
def test_any_call_may_fail(rocm):
    said = run(
        f"""
        import json
        from doubles import hip_failures
        wrong, tried = hip_failures.run(double, {rocm})
        print(json.dumps([wrong, sorted(tried)]))
        """,
        f"devices=2, major={rocm}",
        double="libamdhip64",
    )
    wrong, tried = json.loads(said)
    assert wrong == []
    assert set(tried) == set(SIGNATURES) - _OTHERS[rocm] - _NOT_TRIED


def test_a_runtime_that_does_not_tell_its_device_is_told():
    said = run(
        """
        from haulage.platforms import PLATFORMS
        from doubles import libamdhip64
        backend = PLATFORMS["amd"].new_backend()
        backend.activate(0)
        function = backend.function(backend.load(libamdhip64.CODE), "where")
        one = (1, 1, 1)
        double.fail("hipGetDevice", 999)
        try:
            backend.launch(function, one, one, 0, 0, bytes(8))
        except Exception as error:
            print(type(error).__name__, error)
        double.fail("hipGetDevice", 999, after=1)
        try:
            backend.launch(function, one, one, 0, 0, bytes(8))
        except Exception as error:
            print(type(error).__name__, error)
        x, _ = backend.alloc(4096, "device", 0)
        backend.launch(function, one, one, 0, 0, x.to_bytes(8, "little"))
        backend.synchronize()
        print(double.last_error())
        """,
        double="libamdhip64",
    ).splitlines()
    assert said[0].startswith("DeviceError")
    assert "hipModuleLaunchKernel of where with (1, 1, 1) blocks" in said[1]
    assert said[2:] == ["0"]
