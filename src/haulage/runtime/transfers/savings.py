"""What would save transfers of a SmartArray that are made for want of knowledge."""

from collections.abc import Sequence
from typing import Any

from haulage.runtime.transfers.entry import HOST, OTHERS
from haulage.runtime.transfers.listed import counted

# Of less than this it is not worth while to speak.
_LARGE = 1 << 20

# How arrays and functions are told of in `why`, and what is only read takes their place by.
_INSTEAD = (
    ("get('host')", "take get('host', 'r') or np.asarray(a)"),
    ("host('rw')", "take host('r')"),
    ("a function compiled by Numba", "call it inside of `with a.host('r')`"),
)


def views(causes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copies that were made because NumPy views, or memory of a device that another library has,
    may have been written to, those of most bytes first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cause in causes:
        # Others write where the bytes come from.
        if cause["view"] and (cause["source"] == HOST) == (cause["view"] != OTHERS):
            key = {"view": cause["view"], "is_held": cause["is_held"], "line": cause["wrote"]}
            entry = found.setdefault(tuple(key.values()), {**key, "count": 0, "nbytes": 0})
            entry["count"] += cause["count"]
            entry["nbytes"] += cause["nbytes"]
    return sorted(found.values(), key=lambda entry: -entry["nbytes"])


def advice(
    causes: Sequence[dict[str, Any]], views: Sequence[dict[str, Any]], pageable_bytes: int
) -> list[str]:
    """What to change, a sentence each."""
    sentences = [_of_view(each) for each in views if each["count"] > 1]
    for cause in causes:
        if cause["why"] == "host('rw')" and cause["target"] == HOST and cause["count"] > 1:
            sentences.append(
                f"{counted(cause['count'], 'download')}, {cause['nbytes']:,} bytes, for host('rw') "
                f"at {cause['looked']}: host('w') needs none, if all elements are overwritten there"
            )
    if pageable_bytes >= _LARGE:
        sentences.append(
            f"{pageable_bytes:,} bytes were copied from or to memory of the host that is not "
            "pinned: SmartArray(..., where='pinned') is copied faster, and while the program goes "
            "on"
        )
    return sentences


def _of_view(view: dict[str, Any]) -> str:
    taken, line = view["view"], view["line"]
    if taken == OTHERS:
        return _of_others(view)
    uploads = f"{counted(view['count'], 'upload')}, {view['nbytes']:,} bytes"
    instead = next((words for begin, words in _INSTEAD if taken.startswith(begin)), "")
    if view["is_held"]:
        return (
            f"{uploads}, as the NumPy array of {taken} at {line} can be written and is held, so "
            "that its elements count as changed at each launch: let go of it and of its views "
            "(del)" + f"; or, if it is only read, {instead}" * bool(instead)
        )
    return f"{uploads}, as {taken} at {line} counts as writing: if it only reads, {instead}"


def _of_others(view: dict[str, Any]) -> str:
    copies = f"{counted(view['count'], 'copy', 'copies')}, {view['nbytes']:,} bytes"
    read = "if it only reads, give it the array of get('gpu', 'r')"
    if view["is_held"]:
        return (
            f"{copies} from the device, as another library has the memory there since "
            f"{view['line']} and may write to it at any time: let go of what it has (del); or, "
            f"{read}"
        )
    return (
        f"{copies} from the device, as another library had the memory there since {view['line']} "
        f"and may have written to it: {read}"
    )
