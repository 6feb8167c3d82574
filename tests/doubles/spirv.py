"""SPIR-V's validator, of Debian's package spirv-tools or the Vulkan SDK; it needs no device."""

import shutil
import subprocess

import pytest

PROGRAM = "spirv-val"

needs_validator = pytest.mark.skipif(
    shutil.which(PROGRAM) is None,
    reason=f"there is no {PROGRAM}; the package spirv-tools has it",
)


def validate(code: bytes) -> None:
    """See that a module is right.

    Raises:
        AssertionError: it is not; the message has the validator's.
    """
    command = [PROGRAM, "--target-env", "spv1.4", "-"]
    done = subprocess.run(command, input=code, capture_output=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
