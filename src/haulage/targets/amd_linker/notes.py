"""Changes what an object's note says of its kernels' arguments."""

from haulage.targets.amd_linker import elf
from haulage.targets.amd_linker.reading import Section, refused

# An argument that the runtime leaves as it is; all of them know it.
_NONE = "hidden_none"


def without(section: Section, kinds: tuple[str, ...]) -> Section:
    """A section of notes in which arguments of these kinds are none of the runtime's.

    Raises:
        CompileError: the notes are damaged.
    """
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
    return section._replace(content=bytes(made), nbytes=len(made))


def _packed(text: str) -> bytes:
    """A short string in MessagePack."""
    assert len(text) < 32
    return bytes([0xA0 | len(text)]) + text.encode()
