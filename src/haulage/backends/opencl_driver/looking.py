"""Looking for OpenCL's loader, its platforms and what of their devices can be used."""

from haulage.backends.base import Probe
from haulage.backends.libraries import failures, file_of
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.devices import all_devices
from haulage.backends.opencl_driver.library import find
from haulage.errors import DeviceError


def probe() -> Probe:
    """Look for the loader and the devices; never raises."""
    found = find()
    if found.library is None:
        if found.broken:
            answer = f"OpenCL's loader cannot be loaded: {found.broken}"
            return Probe(False, found.looked_for, answer, "OpenCL's loader cannot be loaded")
        answer = (
            f"no OpenCL loader: {failures(found)}; install the system's (on Debian "
            "ocl-icd-libopencl1), or pip install 'haulage[opencl]', which brings one"
        )
        return Probe(False, found.looked_for, answer, "no OpenCL loader")
    try:
        calls = Calls()
        where = file_of(found.library, "clGetPlatformIDs") or found.attempts[-1][0]
        platforms, devices = all_devices(calls)
    except AttributeError as error:
        answer = f"the library is not the OpenCL loader it is named after: {error}"
        return Probe(False, found.looked_for, answer, "OpenCL's loader is something else")
    except DeviceError as error:
        return Probe(False, found.looked_for, str(error), "OpenCL does not start")
    if not platforms:
        answer = (
            f"{where} finds no driver: none is installed, or its .icd file is not in "
            "/etc/OpenCL/vendors, nor where OCL_ICD_VENDORS says"
        )
        return Probe(False, found.looked_for, answer, "OpenCL has no driver")
    told = []
    for device in devices:
        what = f"{device.kind_name} {device.name} of {device.platform_name}"
        told.append(f"{what} is not used: {device.why_not}" if device.why_not else what)
    names = ", ".join(platforms)
    answer = f"{where}, with {names}: {'; '.join(told) or 'no device'}"
    refused = [device for device in devices if device.why_not]
    if len(refused) < len(devices):
        return Probe(True, found.looked_for, answer)
    short = "OpenCL has no device"
    if refused:
        short = f"OpenCL has {refused[0].name}: {refused[0].why_not}"
    return Probe(False, found.looked_for, answer, short)
