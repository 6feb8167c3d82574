"""Looking for the HIP runtime: what each way of it not being there says, and what then happens."""

import ctypes
import os
import re
import subprocess
import sys

import pytest

from haulage.backends.amd_driver import library, looking
from support.nvidia_children import needs_compiler
from support.nvidia_children import run as run_on

PROBE = """
from haulage.backends.amd_driver.looking import probe
found = probe()
print(found.available, found.answer, found.advice)
"""


def run(program, options="", **environment):
    return run_on(program, options, double="libamdhip64", **environment)


@needs_compiler
def test_a_runtime_with_devices_is_taken():
    told = run(PROBE, "devices=2")
    assert told.startswith("True /")
    assert "/libamdhip64.so.7, the HIP runtime of ROCm 7.1, with 2 device(s)" in told


@needs_compiler
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("devices=0", ["answers 100 (hip_ERROR_NO_DEVICE"]),
        ("init_status=999", ["answers 999 (hip_ERROR_UNKNOWN"]),
    ],
)
def test_a_runtime_that_cannot_be_used_says_why(options, words):
    told = run(PROBE, options)
    assert told.startswith("False /")
    assert "/libamdhip64.so.7, the HIP runtime of ROCm 7.1, " in told
    for word in words:
        assert word in told


@needs_compiler
def test_a_runtime_of_before_rocm_5_is_too_old():
    told = run("double.version(40_500_000)" + PROBE)
    assert "/libamdhip64.so.7, the HIP runtime of ROCm 4.5, is too old" in told


@needs_compiler
def test_info_and_an_explicit_choice_say_why():
    told = run(
        """
        import haulage
        from haulage.cli import main
        try:
            haulage.use("amd")
        except haulage.errors.DeviceNotFound as error:
            print("choice:", error)
        main(["info", "--verbose"])
        """,
        "init_status=999",
    )
    choice, info = (line for line in told.splitlines() if "answers 999" in line)
    assert choice.startswith("choice: device 'amd': not found; looked for libamdhip64.so.7: /")
    assert "amd" in info


@pytest.fixture
def real_without_a_device():
    """Debian's runtime, where it is installed and the machine has no AMD GPU."""
    try:
        ctypes.CDLL("libamdhip64.so.5")
    except OSError:
        pytest.skip("libamdhip64.so.5 is not installed (Debian's package libamdhip64-5)")
    if os.path.exists("/dev/kfd"):
        pytest.skip("this machine has /dev/kfd")


def test_the_real_runtime_without_a_device_says_what_is_missing(real_without_a_device):
    found = looking.probe()
    assert not found.available
    assert "the HIP runtime of ROCm 5." in found.answer
    assert "hipError" in found.answer
    assert "there is no /dev/kfd" in found.answer


_CHOOSES = """
import haulage
from haulage import cuda
from haulage.cli import main
try:
    {chooses}
except haulage.errors.DeviceNotFound as error:
    print(error)
main(["info", "--verbose"])
"""


@pytest.mark.parametrize(
    ("chooses", "variable", "begins"),
    [
        ("haulage.use('amd')", "", "device 'amd': not found; "),
        ("haulage.use('amd:1')", "", "device 'amd:1': not found; "),
        ("cuda.device_array(3)", "amd", "HAULAGE_DEVICE 'amd': not found; "),
    ],
)
def test_a_choice_of_what_the_real_runtime_has_not_is_told(
    real_without_a_device, chooses, variable, begins
):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("HAULAGE_DEVICE", None)
    if variable:
        environment["HAULAGE_DEVICE"] = variable
    done = subprocess.run(
        [sys.executable, "-c", _CHOOSES.format(chooses=chooses)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said, *info = done.stdout.splitlines()
    assert said.startswith(begins)
    listed = next(line for line in info if line.split()[:1] == ["amd"])
    for told in (said, listed):
        assert "libamdhip64.so.5, the HIP runtime of ROCm 5." in told
        assert re.search(r"answers 10[01] \(hipError(NoDevice|InvalidDevice)\)", told)
        assert "there is no /dev/kfd: " in told
        assert "docker run --device=/dev/kfd" in told
    assert ("HAULAGE_DEVICE 'amd'" in done.stdout) == bool(variable)


_CALLS = """
import ctypes
from haulage.backends.amd_driver.calls import Calls

calls, room = Calls(), ctypes.create_string_buffer(1024)
at = ctypes.addressof(room)
for name, *args in (
    ("DeviceGetCount",), ("SetDevice", 0), ("MemAlloc", 64),
    ("MemHostAlloc", 64, 0), ("StreamCreateWithPriority", 0, 0),
    ("DeviceGetAttribute", 1, 0), ("EventCreate", 0),
    ("CtxSynchronize",), ("PointerGetAttributes", at, 4096),
    ("ModuleLoadData", at), ("ModuleLaunchCooperativeKernel",),
):
    try:
        calls(name, *args)
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_the_real_runtimes_statuses_become_errors_that_name_the_call(real_without_a_device):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _CALLS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *said, later = done.stdout.splitlines()
    calls = re.findall(r'\("(\w+)"', _CALLS)
    *names, newer = (library.OTHERWISE.get(call, f"hip{call}") for call in calls)
    assert len(said) == len(names)
    for name, told in zip(names, said, strict=True):
        assert re.match(rf"DeviceError \[10[01]\] {name}\(.*\): hipError\w+; no ", told), told
    assert f"Unsupported {newer}: the HIP runtime of ROCm 5.2 is too old" in later


def test_every_name_and_place_is_told(monkeypatch, tmp_path):
    def none(name, mode=0):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", none)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.delenv("HIP_PATH", raising=False)
    tried = library.find().looked_for
    here = str(tmp_path / "lib")
    assert tried[:2] == (f"{here}/libamdhip64.so.10", f"{here}/libamdhip64.so.9")
    assert tried[6:8] == (f"{here}/libamdhip64.so", "libamdhip64.so.10")
    assert tried[12:14] == ("libamdhip64.so.5", "libamdhip64.so")
    assert tried[-1] == "/opt/rocm/lib/libamdhip64.so"


@needs_compiler
def test_a_library_in_the_folder_of_rocm_path_is_found(tmp_path):
    """By a process that has none yet."""
    told = run(
        f"""
        import os, shutil, subprocess, sys
        folder = {str(tmp_path)!r}
        from doubles import libamdhip64
        os.makedirs(os.path.join(folder, "lib"))
        open(os.path.join(folder, "lib", "libamdhip64.so.10"), "w").write("no library")
        shutil.copy(libamdhip64.build(7), os.path.join(folder, "lib", "libamdhip64.so.9"))
        program = "from haulage.backends.amd_driver.looking import probe; print(probe().answer)"
        print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             env={{**os.environ, "ROCM_PATH": folder}}).stdout)
        """,
    )
    broken = f"(passed over: {tmp_path}/lib/libamdhip64.so.10: file too short)"
    assert f"{tmp_path}/lib/libamdhip64.so.9, the HIP runtime of ROCm 7.1 {broken}" in told


def test_a_library_that_cannot_be_loaded_is_told_from_none(monkeypatch):
    attempts = (("liba", "liba: No such file"), ("libb", "libneeded.so: cannot open: No such file"))
    monkeypatch.setattr(looking, "find", lambda: library.Search(None, attempts))
    answer = looking.probe().answer
    assert "cannot be loaded: libb: libneeded.so: cannot open: No such file; install what" in answer


@needs_compiler
@pytest.mark.parametrize("architecture", ["gfx803", "gfx1250"])
def test_a_gpu_that_no_code_can_be_made_for_is_passed_over_and_told(architecture):
    told = run(
        """
        import warnings
        import haulage
        from haulage.cli import main
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print("here", haulage.cuda.device_array(3).device, len(caught), caught[0].message)
        main(["info", "--verbose"])
        haulage.use("amd")
        print("there", haulage.cuda.device_array(3).device)

        @haulage.cuda.jit
        def kernel(x):
            x[0] = 1

        try:
            kernel[1, 1](haulage.cuda.device_array(3))
        except haulage.errors.Unsupported as error:
            print("kernel", error)
        """,
        f"devices=2, architecture={architecture!r}",
    )
    lines = told.splitlines()
    why = f"no code can be made for {architecture}: expected one of gfx900, "
    assert lines[0].startswith(f"here cpu:0 2 amd:0 is not used: {why}")
    assert f"  Stand-in GPU 1 ({architecture}): {why}" in told
    assert "there amd:0" in lines
    assert lines[-1].startswith(f"kernel {why}")
    assert lines[-1].endswith("; choose another device, as with HAULAGE_DEVICE=cpu")


@needs_compiler
def test_info_says_which_runtime_devices_come_from():
    told = run("from haulage.cli import main\nmain(['info', '--verbose'])", "devices=2")
    row = next(line for line in told.splitlines() if line.startswith("  amd  "))
    assert row.endswith("/libamdhip64.so.7, the HIP runtime of ROCm 7.1, with 2 device(s)")
    assert "  amd:1 " in told


# ---- what the system tells ----------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an AMD card; (its folders, what can be opened)."""
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    card = tmp_path / "drm" / "card0" / "device"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x1002\n")
    (card / "device").write_text("0x73bf\n")
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri" / "renderD128").touch()
    (tmp_path / "kfd").touch()
    closed = set()

    def told():
        return looking.missing(
            tmp_path / "kfd",
            tmp_path / "dri",
            tmp_path / "drm",
            lambda path: os.path.basename(path) not in closed,
        )

    return tmp_path, closed, told


def test_the_module_of_the_kernel_is_missed(machine):
    folder, _, told = machine
    (folder / "kfd").unlink()
    (said,) = told()
    assert said.startswith(f"there is no {folder}/kfd: an AMD device is there (0x73bf), but ")
    assert "amdgpu" in said
    assert "--device=/dev/kfd" in said


@pytest.mark.parametrize("name", ["kfd", "renderD128"])
def test_permission_is_missed_with_the_group_to_join(machine, name):
    _, closed, told = machine
    closed.add(name)
    (said,) = told()
    assert said.startswith("no permission to open ")
    assert name in said
    assert "usermod -aG render $USER" in said


def test_a_container_without_the_render_nodes_is_told(machine):
    folder, _, told = machine
    (folder / "dri" / "renderD128").unlink()
    (said,) = told()
    assert "renderD*" in said
    assert "--device=/dev/dri" in said


def test_variables_that_hide_devices_are_told(machine, monkeypatch):
    _, _, told = machine
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "-1")
    assert told() == ["HIP_VISIBLE_DEVICES=-1 may hide devices"]


def test_nothing_is_wrong_that_the_system_could_tell(machine):
    (said,) = machine[2]()
    assert said.startswith("no AMD device is visible")


def test_a_card_without_a_runtime_is_told_with_what_to_install(machine, monkeypatch):
    folder, _, _ = machine
    cards = looking._cards(folder / "drm")
    monkeypatch.setattr(looking, "_cards", lambda: cards)
    monkeypatch.setattr(
        looking, "find", lambda: library.Search(None, (("libx", "libx: No such file"),))
    )
    found = looking.probe()
    assert found.answer.startswith("an AMD device is there (0x73bf), but no HIP runtime: install")
    assert not found.advice
