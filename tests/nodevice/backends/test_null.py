"""The do-nothing back end: what the seam's defaults say, and that the suite can fail."""

import inspect

import pytest

from haulage.backends import conformance
from haulage.backends.base import DEVICE, KINDS, NON_BLOCKING, Backend
from haulage.backends.cpu import CPUBackend
from haulage.backends.null import NullBackend
from haulage.errors import DeviceError, Unsupported

MAY_CALLS = {
    "stream_callback": (0, print),
    "adversary": (1,),
    "link": ((),),
    "symbol": (1, "x"),
    "function_info": (1,),
    "occupancy": (1, 32, 0),
    "ipc_export": (1, 1, 1, 1),
    "launch_cooperative": (1, (1, 1, 1), (1, 1, 1), 0, 0, b""),
    "max_cooperative_blocks": (1, 32, 0, 0),
    "ipc_export_of_others": (1,),
    "ipc_import": (b"",),
    "ipc_close": (1,),
    "peer_enable": (0, 1),
    "prefetch": (1, 1, 0, 0),
    "advise": (1, 1, "read_mostly", 0),
    "reserve": (1,),
    "release": (1, 1),
    "map": (1, 1),
    "unmap": (1, 1),
    "capture_begin": (1,),
    "capture_end": (1,),
    "capture_cancel": (1,),
    "graph_launch": (1, 0),
    "graph_destroy": (1,),
}


@pytest.mark.parametrize("method", MAY_CALLS)
def test_default_of_a_may_method_names_back_end_and_method(method):
    with pytest.raises(Unsupported, match=f"null back end has no {method}"):
        getattr(NullBackend(), method)(*MAY_CALLS[method])


def test_every_may_method_is_tried_above():
    concrete = {
        name
        for name, member in inspect.getmembers(Backend, inspect.isfunction)
        if not name.startswith("_") and not getattr(member, "__isabstractmethod__", False)
    }
    without_an_error = {"stream_priorities", "stream_poll", "event_poll", "check_address"}
    without_an_error |= {"can_access_peer", "profile", "unraised", "messages", "prepare_launch"}
    without_an_error |= {"granularity", "ipc_withdraw", "capture_query", "prefer_shared"}
    without_an_error |= {"deepen_stacks", "idle_query", "note_name"}
    assert concrete == {*MAY_CALLS, *without_an_error}


def test_no_other_device_can_be_reached_by_default():
    assert not NullBackend().can_access_peer(0, 1)


def test_no_addresses_can_be_reserved_by_default():
    assert NullBackend().granularity() == 0


def test_what_was_exported_can_be_used_again_at_once_by_default():
    assert NullBackend().ipc_withdraw(1) == (1,)


def test_nothing_is_recorded_by_default():
    assert not NullBackend().capture_query(1)


def test_no_failure_is_known_by_default():
    assert NullBackend().unraised() == []
    assert NullBackend().messages(1) == NullBackend().messages(-1) == ([], 0)


def test_there_is_no_profiler_by_default():
    assert not NullBackend().profile(True)
    assert not NullBackend().profile(False)


def test_priorities_are_none_by_default():
    assert NullBackend().stream_priorities() == (0, 0)


def test_handles_and_pointers_are_distinct():
    backend = NullBackend()
    handles = [backend.stream_create(NON_BLOCKING), backend.event_create(), backend.load(b"")]
    handles.append(backend.function(handles[2], "f"))
    assert 0 not in handles
    assert len(set(handles)) == len(handles)
    pointers = [backend.alloc(1 << 30, kind) for kind in KINDS]
    assert len({device for device, _ in pointers}) == len(KINDS)
    assert backend.alloc(1, DEVICE)[1] == 0


def test_must_methods_do_nothing_and_return():
    backend = NullBackend()
    backend.activate(0)
    backend.copy(1, 2, 3, 0)
    backend.launch(1, (1, 1, 1), (1, 1, 1), 0, 0, b"")
    backend.synchronize()
    assert backend.stream_query(0)
    assert backend.event_elapsed(1, 2) == 0.0


class NoPrograms:
    reports_faults = True
    overlaps = True

    def code(self):
        return b""


def test_the_conformance_suite_fails_on_a_back_end_that_does_nothing():
    passed = set()
    for check in conformance.checks():
        try:
            check(NullBackend(), NoPrograms())
        except (AssertionError, DeviceError):
            continue
        passed.add(check.__name__)
    assert passed == {
        "every_kind_is_aligned_and_apart",
        "handles_are_distinct",
        "priorities_are_a_pair",
        "prefetch_and_advice_change_no_bytes",  # these six allow a back end to have none
        "callbacks_run_after_earlier_work",
        "an_exported_allocation_has_one_handle",
        "pieces_of_a_unit_are_exported_one_by_one",
        "mapped_parts_of_a_range_are_memory",
        "too_large_a_range_is_out_of_memory",
    } | {  # and these to have no graphs
        check.__name__ for check in conformance.checks() if check.__module__.endswith("graphs")
    }


@pytest.mark.parametrize("backend", [NullBackend, CPUBackend])
def test_methods_keep_the_order_of_the_seam(backend):
    order = [name for name in vars(Backend) if not name.startswith("_")]
    own = [name for name in vars(backend) if not name.startswith("_")]
    assert own == [name for name in order if name in own]


def test_the_host_does_not_use_memory_of_a_device_by_default():
    assert NullBackend().queues is None
