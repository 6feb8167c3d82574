"""What kernels can say, under numba's long name for it."""

from haulage.roc import (
    activelanepermute_wavewidth,
    atomic,
    barrier,
    ds_bpermute,
    ds_permute,
    get_global_id,
    get_global_size,
    get_group_id,
    get_local_id,
    get_local_size,
    get_num_groups,
    get_work_dim,
    mem_fence,
    shared,
    wavebarrier,
)

__all__ = [
    "activelanepermute_wavewidth",
    "atomic",
    "barrier",
    "ds_bpermute",
    "ds_permute",
    "get_global_id",
    "get_global_size",
    "get_group_id",
    "get_local_id",
    "get_local_size",
    "get_num_groups",
    "get_work_dim",
    "mem_fence",
    "shared",
    "wavebarrier",
]
