"""`haulage.explain`: what SmartArrays moved since the process began, why, and how to move less."""

from collections.abc import Sequence
from typing import Any

from haulage.runtime.transfers.account import Sums, every
from haulage.runtime.transfers.entries import (
    DIRECTIONS,
    HOST,
    OTHERS,
    View,
    account_of,
    counted,
    table,
    total,
    written,
    written_cell,
)

# So many storages are told of one by one in the text, those that moved most.
_TOLD = 20


class Explanation(str):
    """The text of an explanation, to be printed; notebooks show a table.

    Attributes:
        what: what it is of, in words.
        data: the same as numbers and texts, for `json.dump`. `arrays` has an entry for each
            storage, and the sums of all are beside it: `transfers` and `nbytes`, by direction;
            `uses` and `used_bytes` of work on devices, and `found` and `found_bytes` of those
            that found what they needed on the device; `launches` and `launched_bytes` of arguments
            of kernels, ufuncs and the like, and `as_host_arrays`, the bytes that these would have
            copied; `avoided`, how many of those were not; `pageable_bytes`, that were copied
            between a device with memory of its own and memory of the host that is not pinned. An
            entry of `arrays` has these, its `array` (in words), the line `made`, its size
            `storage_bytes`, and:
            `causes`, `count` transfers of `nbytes` bytes from `source` to `target`, `why`, and the
            lines `looked` and `wrote`, where `view` says by which NumPy view of that line they
            counted as written, None: they were written, and `is_held` whether that was held still;
            `views`, `count` copies of `nbytes` bytes that were made because of such views, or as
            another library has memory of the device, with the `line`; and `advice`, sentences on
            what would save transfers.
    """

    __slots__ = ("data", "what")

    data: dict[str, Any]
    what: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = []
        for each in self.data["arrays"]:
            rows += [
                [
                    *(each["array"], f"{cause['count']:,}", f"{cause['nbytes']:,}"),
                    *(cause["source"], cause["target"], cause["why"]),
                    *(cause["looked"] or "", written_cell(_view(cause), cause["wrote"] or "")),
                ]
                for cause in each["causes"]
            ]
        heads = ("array", "transfers", "bytes", "from", "to", "for", "needed at", "written last at")
        advice = [
            f"{each['array']}: {one}" for each in self.data["arrays"] for one in each["advice"]
        ]
        return table([*_heading(self.data, self.what), *advice], heads, rows)


def explain(array: Any = None) -> Explanation:
    """What SmartArrays moved since the process began: by array, with the lines that needed the
    bytes and that had written them, and how much need not be moved.

    What is kept is bounded: the storages that came to a device last are told of one by one, of each
    of them 64 causes, and the others are summed. Copies that no SmartArray makes are not in it; see
    `haulage.transfers` and `haulage advise` for these.

    Args:
        array: a SmartArray: only of the storage that it and its views share. None: of all.

    Returns:
        A text, to be printed; its `data` has the same as numbers.

    Raises:
        TypeError: it is no SmartArray.
    """
    if array is None:
        return _explanation(every(), "SmartArrays")
    account = account_of(array)
    if account is None:
        raise TypeError(
            f"explain({type(array).__name__}): expected a SmartArray; transfers of other arrays "
            "are recorded inside of `with haulage.transfers()` and by `haulage advise`"
        )
    return _explanation([account.sums], str(account.name))


def _explanation(sums: list[Sums], what: str) -> Explanation:
    whole = Sums()
    arrays = []
    for each in sums:
        whole.merge(each)
        arrays.append(
            {
                "array": "SmartArrays of before" if each.name is None else str(each.name),
                "made": str(each.name.made) if each.name and each.name.made else None,
                "storage_bytes": each.nbytes,
                **_figures(each),
                "causes": (causes := _causes(each)),
                "views": (views := _views(causes)),
                "advice": _advice(causes, views, each.pageable_bytes),
            }
        )
    arrays.sort(key=_moved, reverse=True)
    data = {**_figures(whole), "arrays": arrays}
    made = Explanation("\n".join(_text(data, what)))
    made.data, made.what = data, what
    return made


def _figures(sums: Sums) -> dict[str, Any]:
    transfers, nbytes = dict.fromkeys(DIRECTIONS, 0), dict.fromkeys(DIRECTIONS, 0)
    for cause in list(sums.causes.values()):
        transfers[cause.example.direction] += cause.count
        nbytes[cause.example.direction] += cause.nbytes
    as_host_arrays = sums.as_host_arrays
    return {
        "transfers": transfers,
        "nbytes": nbytes,
        "uses": sums.uses,
        "used_bytes": sums.used_bytes,
        "found": sums.found,
        "found_bytes": sums.found_bytes,
        "launches": sums.launches,
        "launched_bytes": sums.launched_bytes,
        "as_host_arrays": as_host_arrays,
        "avoided": max(0, as_host_arrays - sum(nbytes.values())),
        "pageable_bytes": sums.pageable_bytes,
    }


def _causes(sums: Sums) -> list[dict[str, Any]]:
    """The causes with their lines, those of most bytes first; what one line does is one of them."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, cause in list(sums.causes.items()):
        one = cause.example
        known = key[0] is not None
        words = {
            "source": one.source,
            "target": one.target,
            "why": one.why if known else "other lines",
            "looked": str(one.looked) if known and one.looked else None,
            "wrote": str(one.wrote) if known and one.wrote else None,
            "view": one.view if known else None,
            "is_held": known and one.is_held,
        }
        entry = found.setdefault(tuple(words.values()), {"count": 0, "nbytes": 0, **words})
        entry["count"] += cause.count
        entry["nbytes"] += cause.nbytes
    return sorted(found.values(), key=lambda entry: -entry["nbytes"])


def _moved(figures: dict[str, Any]) -> int:
    moved: int = sum(figures["nbytes"].values())
    return moved


def _heading(data: dict[str, Any], what: str) -> list[str]:
    """What was moved and what was not, in sentences."""
    ways = [
        f"{total(data['transfers'][way], data['nbytes'][way])} {way}"
        for way in DIRECTIONS
        if data["transfers"][way]
    ]
    sentences = [f"transfers of {what} since the process began: {'; '.join(ways) or 'none'}"]
    if data["uses"]:
        sentences.append(
            f"{data['found']:,} of {counted(data['uses'], 'use')} on a device found the bytes "
            f"there: {data['found_bytes']:,} bytes were not copied"
        )
    if data["launches"]:
        sentences.append(
            f"given to kernels as host arrays they would have moved {data['as_host_arrays']:,} "
            f"bytes ({counted(data['launches'], 'argument')} of launches): "
            f"{data['avoided']:,} bytes were avoided"
        )
    return sentences


def _text(data: dict[str, Any], what: str) -> list[str]:
    found = _heading(data, what)
    several = len(data["arrays"]) > 1
    for each in data["arrays"][:_TOLD]:
        if several:
            moved = total(sum(each["transfers"].values()), _moved(each))
            found.append(
                f"{each['array']}: {moved}; {each['found']:,} of "
                f"{counted(each['uses'], 'use')} found the bytes there"
            )
        found += [_line(cause) for cause in each["causes"]]
        found += [f"{'':>12}-> {sentence}" for sentence in each["advice"]]
    if len(data["arrays"]) > _TOLD:
        rest = data["arrays"][_TOLD:]
        found.append(f"{counted(len(rest), 'other array')}: {sum(map(_moved, rest)):,} bytes moved")
    return found


def _line(cause: dict[str, Any]) -> str:
    text = (
        f"{cause['nbytes']:>17,} bytes in {counted(cause['count'])} from {cause['source']} to "
        f"{cause['target']}, for {cause['why']}"
    )
    if cause["looked"]:
        text += f" at {cause['looked']}"
    if cause["wrote"]:
        text += f"; {written(_view(cause))} {cause['wrote']}"
    return text


def _view(cause: dict[str, Any]) -> View | None:
    return View(cause["view"], cause["is_held"]) if cause["view"] else None


# Of less than this it is not worth while to speak.
_LARGE = 1 << 20

# How arrays and functions are told of in `why`, and what is only read takes their place by.
_INSTEAD = (
    ("get('host')", "take get('host', 'r') or np.asarray(a)"),
    ("host('rw')", "take host('r')"),
    ("a function compiled by Numba", "call it inside of `with a.host('r')`"),
)


def _views(causes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
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


def _advice(
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
