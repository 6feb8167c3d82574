"""The words and marks of a PTX text. Source of the grammar: NVIDIA, PTX ISA, chapter 4."""

import bisect
import re

from doubles.ptx.syntax import PTXError

# What is not a number, a name or a mark is an error. `.loc` and `.file` end with their line.
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\.(?:loc|file)\b[^\n]*)
    |(?P<string>"[^"]*")
    |(?P<float>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    |(?P<integer>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?(?!\w))
    |(?P<word>[A-Za-z_$%][\w$]*)
    |(?P<part>\.[\w]+(?:::\w+)*)
    |(?P<mark>[-+~!@<>=()\[\]{},;:|])
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


class Tokens:
    """A text's tokens, and the place that a reader has come to."""

    def __init__(self, text: str) -> None:
        # (kind, text, place) of each.
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                line = text.count("\n", 0, at) + 1
                raise PTXError(f"line {line}: {text[at : at + 20]!r} is nothing of PTX")
            at = found.end()
            if found.lastgroup != "space":
                self._tokens.append((found.lastgroup or "", found[0], found.start()))
        self._tokens.append(("end", "", len(text)))
        self._at = 0
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]

    @property
    def kind(self) -> str:
        """That of the next token: string, float, integer, word, part (of a name), mark or end."""
        return self._tokens[self._at][0]

    @property
    def word(self) -> str:
        """The next token."""
        return self._tokens[self._at][1]

    @property
    def after(self) -> tuple[str, str]:
        """(kind, text) of the token behind the next one."""
        return self._tokens[self._at + 1][:2]

    @property
    def line(self) -> int:
        """The line of the next token."""
        return bisect.bisect(self._line_starts, self._tokens[self._at][2])

    def take(self, expected: str | None = None) -> str:
        """Go past the next token, which has to be `expected` if that is given; the token."""
        word = self.word
        if expected is not None and word != expected:
            raise self.error(f"{word!r}, where {expected!r} has to be")
        self._at += 1
        return word

    def takes(self, word: str) -> bool:
        """Go past the next token if it is that one; whether it was."""
        if self.word != word:
            return False
        self._at += 1
        return True

    def error(self, what: str) -> PTXError:
        """An error that names the line."""
        return PTXError(f"line {self.line}: {what}")

    def skip(self, opening: str, closing: str) -> None:
        """Go past what two marks enclose."""
        self.take(opening)
        depth = 1
        while depth:
            word = self.take()
            depth += (word == opening) - (word == closing)

    def skip_statement(self) -> None:
        """Go past the next semicolon."""
        while self.take() != ";":
            pass
