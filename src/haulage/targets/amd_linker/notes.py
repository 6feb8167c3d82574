"""Changes what an object's note says of its kernels' arguments."""

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.reading import Section, read, refused

# An argument that the runtime leaves as it is; all of them know it.
_NONE = "hidden_none"

# Where in a file's header the table of sections is; in a section's, where it is and how large.
_SECTIONS = 6
_OFFSET, _SIZE = 4, 5


def without(code: bytes, kinds: tuple[str, ...]) -> bytes:
    """An object in whose notes arguments of these kinds are none of the runtime's.

    Raises:
        CompileError: the object is damaged.
    """
    made = bytearray(code)
    sections = read(code).sections
    sections_at = elf.HEADER.unpack_from(code)[_SECTIONS]
    for section in sections:
        content = _without(section, kinds) if section.kind == elf.NOTE else section.content
        if content == section.content:
            continue
        # It has another size, so it lies behind all else from now on.
        made += bytes(-len(made) % max(section.align, 1))
        at = sections_at + section.number * elf.SECTION_HEADER.size
        header = list(elf.SECTION_HEADER.unpack_from(made, at))
        header[_OFFSET], header[_SIZE] = len(made), len(content)
        elf.SECTION_HEADER.pack_into(made, at, *header)
        made += content
    return bytes(made)


def _without(section: Section, kinds: tuple[str, ...]) -> bytes:
    """The content of a section of notes, with others of these arguments."""
    made = bytearray()
    at, header = 0, elf.NOTE_HEADER.size
    while at < len(section.content):
        if at + header > len(section.content):
            raise refused(f"the object is damaged: {section.name} ends in a header")
        of_name, of_content, kind = elf.NOTE_HEADER.unpack_from(section.content, at)
        name_at = at + header
        content_at = name_at + elf.up(of_name, 4)
        end = content_at + of_content
        if end > len(section.content):
            raise refused(f"the object is damaged: a note of {section.name} is cut off")
        content = section.content[content_at:end]
        for each in kinds:
            content = content.replace(_packed(each), _packed(_NONE))
        made += elf.NOTE_HEADER.pack(of_name, len(content), kind)
        made += section.content[name_at:content_at] + content
        made += bytes(-len(made) % 4)
        at = elf.up(end, 4)
    return bytes(made)


def _packed(text: str) -> bytes:
    """A short string in MessagePack."""
    assert len(text) < 32
    return bytes([0xA0 | len(text)]) + text.encode()
