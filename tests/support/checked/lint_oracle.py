"""What GPUs would make of requests of warps, counted by hand; and what the lint has measured."""

from haulage.checking.session import Session


def sectors(request):
    """The sectors of 32 bytes that lanes touch, and how few would hold as many bytes; a request
    has (address, bytes) for each lane that takes part."""
    touched = {byte for address, nbytes in request for byte in range(address, address + nbytes)}
    return len({byte // 32 for byte in touched}), -(-len(touched) // 32)


def cycles(request, lanes=32):
    """The cycles that shared memory takes for a request, and those without conflicts; a request
    has the lane, too: (lane, address, bytes)."""
    total = least = 0
    (nbytes,) = {nbytes for _, _, nbytes in request}
    words = -(-nbytes // 4)
    together = max(1, 32 // words)
    for first in range(0, lanes, together):
        of_banks = {}
        for lane, address, _ in request:
            if first <= lane < first + together:
                for word in range(address // 4, address // 4 + words):
                    of_banks.setdefault(word % 32, set()).add(word)
        if of_banks:
            total += max(len(each) for each in of_banks.values())
            least += 1
    return total, least


def warps(block, lanes=32):
    """The threads (x, y) of each warp of a block of two axes."""
    every = [(x, y) for y in range(block[1]) for x in range(block[0])]
    return [every[first : first + lanes] for first in range(0, len(every), lanes)]


def measured(work):
    """All that is measured while `work()` launches kernels, told or not:
    {(kind, what is done, array): figures}; of several lines with the same the sum."""
    session = Session(["lint"])
    session.begin()
    try:
        work()
        session.wait()
    finally:
        session.end()
    found = {}
    for each in session.findings:
        key = each.kind, each.access.what, each.array
        if each.kind == "float64":
            key = each.kind, each.access.place.line, each.array
        known = found.setdefault(key, {})
        for name, value in each.measured.items():
            known[name] = known.get(name, 0) + value
    return found
