"""Dask's arrays with blocks on devices: `import haulage.dask as hd`.

    x = hd.from_array(a, chunks=...)            blocks of `a`, each on its worker's device
    hd.to_device(darray), hd.to_host(darray)    the blocks of a Dask array there and back
    hd.map_blocks(kernel, x, 2.0)               a kernel, or a function, for each block
    hd.map_overlap(kernel, x, depth=1, boundary="reflect")
    client.register_plugin(hd.DevicePlugin())   each worker a device, and its share of the cores
    hd.memory(client), hd.report(client)        device memory by worker; who holds it
    hd.dashboard(client)                        a page of that in Dask's dashboard

Needs the packages dask (with dask.array) and distributed; docs/dask.md is the page for programs.
"""

from haulage.extras import how_to_install

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"haulage.dask needs Dask with its arrays and `distributed`: {how_to_install('dask')}"
    ) from _error

from haulage.dask.blocks import from_array, map_blocks, map_overlap, to_device, to_host
from haulage.dask.dashboard import dashboard
from haulage.dask.workers import DevicePlugin, memory, report

__all__ = [
    "DevicePlugin",
    "dashboard",
    "from_array",
    "map_blocks",
    "map_overlap",
    "memory",
    "report",
    "to_device",
    "to_host",
]
