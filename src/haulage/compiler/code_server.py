"""The process in which LLVM's code generator makes code of modules; see `apart.py`.

It is started as a program with a triple, a processor, its features, and options for LLVM. It reads
requests and writes answers: a line with a word and the number of bytes that follow.
"""

import os
import sys
import tempfile
from typing import IO

CAN_FORK = hasattr(os, "fork")
DONE, FAILED = "done", "failed"


def send(stream: IO[bytes], word: str, content: bytes) -> None:
    """Write a message."""
    stream.write(f"{word} {len(content)}\n".encode() + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[str, bytes]:
    """The word and the content of the next message.

    Raises:
        EOFError: there is none.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    word, length = line.decode().split()
    content = stream.read(int(length))
    if len(content) < int(length):
        raise EOFError
    return word, content


def _emit(what: str, text: str, given: list[str]) -> bytes:
    import llvmlite.binding as llvm

    triple, cpu, features = given
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(text)
    made: bytes = (
        machine.emit_assembly(module).encode()
        if what == "assembly"
        else machine.emit_object(module)
    )
    return made


def _in_a_copy(what: str, text: str, given: list[str]) -> tuple[str, bytes]:
    """The answer that a copy of this process works out."""
    with tempfile.TemporaryFile() as made, tempfile.TemporaryFile() as said:
        copy = os.fork()
        if copy == 0:
            status = 1
            try:
                os.dup2(said.fileno(), 2)
                made.write(_emit(what, text, given))
                made.flush()
                status = 0
            except Exception as error:
                os.write(2, str(error).encode())
            finally:
                os._exit(status)
        _, status = os.waitpid(copy, 0)
        answer = said if status else made
        answer.seek(0)
        return (FAILED if status else DONE), answer.read()


def main(arguments: list[str]) -> None:
    """Answer requests until there are no more."""
    import llvmlite.binding as llvm

    given, options = arguments[:3], arguments[3:]
    for option in options:
        llvm.set_option("haulage", option)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            what, content = receive(requests)
        except EOFError:
            return
        if CAN_FORK:
            send(answers, *_in_a_copy(what, content.decode(), given))
        else:
            send(answers, DONE, _emit(what, content.decode(), given))
            return


if __name__ == "__main__":
    main(sys.argv[1:])
