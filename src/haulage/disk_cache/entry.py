"""One file of the cache: a line that says so, a checksum, JSON, and the bytes of the code."""

import hashlib
import json
import struct
from typing import Any

# The number grows when the meaning of what stands in a file changes.
_MAGIC = b"haulage code 1\n"
_CHECKSUM_BYTES = 32
_JSON_LENGTH = struct.Struct("<Q")
_HEAD = len(_MAGIC) + _CHECKSUM_BYTES


def pack(facts: dict[str, Any], code: bytes) -> bytes:
    """The file for `facts`, which JSON can say, and `code`."""
    text = json.dumps(facts, separators=(",", ":")).encode()
    body = _JSON_LENGTH.pack(len(text)) + text + code
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """What was packed; None for a file that is torn, changed, older, or somebody else's."""
    start = _HEAD + _JSON_LENGTH.size
    if len(data) < start or not data.startswith(_MAGIC):
        return None
    body = memoryview(data)[_HEAD:]
    if hashlib.sha256(body).digest() != data[len(_MAGIC) : _HEAD]:
        return None
    (length,) = _JSON_LENGTH.unpack_from(data, _HEAD)
    facts: dict[str, Any] = json.loads(data[start : start + length])
    return facts, data[start + length :]
