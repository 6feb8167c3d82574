"""Looking for NVIDIA's driver: what each way of it not being there says, and what then happens."""

import subprocess

import pytest

from doubles import libcuda
from haulage.backends.nvidia_driver import looking
from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

PROBE = """
from haulage.backends.nvidia_driver.looking import probe
found = probe()
print(found.available, found.answer, found.advice)
"""
NO_PACKAGE = "sys.modules['cuda.bindings'] = sys.modules['cuda.bindings.driver'] = None\n"


def test_a_driver_with_devices_is_taken():
    told = run(PROBE, "devices=2, version=12080")
    assert told.strip() == "True the driver is there, for CUDA 12.8, with 2 device(s)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("version=12010", ["for CUDA 12.1, which is too old", "CUDA 12.2", "driver 535"]),
        ("version=11040", ["for CUDA 11.4, which is too old"]),
        ("devices=0", ["CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"]),
        ("init_status=803", ["803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)", "reboot"]),
        ("init_status=34", ["CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"]),
        ("init_status=77", ["cuInit answered 77", "dmesg"]),
    ],
)
def test_a_driver_that_cannot_be_used_says_why(options, words):
    told = run(PROBE, options)
    assert told.startswith("False ")
    for word in words:
        assert word in told


def test_info_and_an_explicit_choice_say_why():
    told = run(
        """
        import haulage
        from haulage.cli import main
        try:
            haulage.use("nvidia")
        except haulage.errors.DeviceNotFound as error:
            print("choice:", error)
        main(["info", "--verbose"])
        """,
        "init_status=803",
    )
    choice, info = (line for line in told.splitlines() if "SYSTEM_DRIVER_MISMATCH" in line)
    assert choice.startswith("choice: device 'nvidia': not found; looked for libcuda.so.1")
    assert "nvidia" in info


def test_a_library_that_cannot_be_loaded_is_told_from_none(tmp_path, monkeypatch):
    def answer():
        found = looking.probe()
        assert not found.available
        return found.answer

    # The loader has read LD_LIBRARY_PATH when the process began.
    real = looking.search
    monkeypatch.setattr(looking, "search", lambda names: real(["libno.so.1"]))
    assert answer().startswith("no NVIDIA driver: ")
    library = tmp_path / "libcuda.so.1"
    monkeypatch.setattr(looking, "search", lambda names: real([str(library)]))
    library.write_text("no library")
    assert answer() == f"the driver's library cannot be loaded: {library}: file too short"
    needed = tmp_path / "libneeded.so"
    for made, source, more in ((needed, "", []), (library, "", ["-Wl,--no-as-needed", needed])):
        command = [libcuda.compiler(), "-shared", "-x", "c", "-", "-x", "none", *more, "-o", made]
        subprocess.run(list(map(str, command)), input=source, text=True, check=True)
    needed.unlink()
    assert answer().startswith(
        f"the driver's library cannot be loaded: {library}: {needed}: cannot open"
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "from haulage.backends.nvidia import NVIDIABackend\n"
            "def count(self):\n    raise haulage.errors.DeviceError('it is broken')\n"
            "NVIDIABackend.count = count",
            ["nvidia ", "the driver is there", "does not start: ", "it is broken"],
        ),
        (
            "double.fail('cuDeviceGetCount', 999, times=100)",
            ["nvidia ", "cuDeviceGetCount answered 999 (CUDA_ERROR_UNKNOWN)"],
        ),
        (
            "double.fail('cuDevicePrimaryCtxRetain', 46, times=100)",
            ["nvidia:0 ", "GPU", "(sm_90): ", "cuDevicePrimaryCtxRetain"],
        ),
    ],
    ids=["start", "count", "device"],
)
def test_info_tells_of_a_driver_or_device_that_fails(program, words):
    told = run(
        f"import haulage\nfrom haulage.cli import main\n{program}\nmain(['info', '--verbose'])\n"
    )
    row = next(line for line in told.splitlines() if line.startswith(f"  {words[0]}"))
    for word in words:
        assert word in row


def test_a_driver_without_the_package_means_the_cpu_and_one_warning():
    told = run(
        NO_PACKAGE
        + """
import warnings
import haulage
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(haulage.cuda.current_context().device, haulage.cuda.device_array(3).device)
print(len(caught), caught[0].category.__name__, caught[0].message)
"""
    )
    assert told.splitlines()[0] == "cpu:0 cpu:0"
    assert told.splitlines()[1].startswith("1 RuntimeWarning an NVIDIA driver is there")
    assert "pip install '.[nvidia]' in the checkout of Haulage" in told


def test_an_explicit_choice_of_the_cpu_brings_no_warning():
    program = (
        "import haulage\nprint(haulage.use('cpu').device, haulage.cuda.device_array(3).device)"
    )
    assert run(NO_PACKAGE + program).strip() == "cpu:0 cpu:0"


def test_an_explicit_choice_without_the_package_gives_the_command():
    told = run(NO_PACKAGE + "import haulage\nhaulage.use('nvidia')", status=1)
    assert "DeviceNotFound" in told
    assert "pip install '.[nvidia]' in the checkout of Haulage" in told
    assert "RuntimeWarning" not in told


@pytest.mark.parametrize(
    ("version", "taken"), [("12.8.0", False), ("12.9.10", True), ("14.0.0", False)]
)
def test_another_version_of_the_package_is_told(monkeypatch, version, taken):
    import cuda.bindings

    monkeypatch.setattr(cuda.bindings, "__version__", version)
    told = "" if taken else f"the package cuda-bindings is version {version}, not 12.9 to 13"
    assert looking._missing_bindings() == told


@pytest.mark.parametrize(("version", "taken"), [("13.1.1", False), ("13.2.0", True)])
def test_another_default_stream_of_the_package_is_refused(version, taken):
    told = run(
        "import os\nimport cuda.bindings\n"
        "os.environ['CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM'] = '0'\n"
        f"cuda.bindings.__version__ = {version!r}\n{PROBE}"
    )
    assert told.startswith(f"{taken} the driver is there")
    assert ("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM is set" in told) is not taken


def test_arrays_without_a_driver_do_not_import_the_package():
    told = run(
        """
        import haulage
        haulage.cuda.to_device([1.0, 2.0])
        print("cuda.bindings" in sys.modules)
        """,
        "version=11000",
    )
    assert told.strip() == "False"
