"""A kernel's body whose code is looked for on disk first."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage.compiler.access.model import Accesses
from haulage.compiler.cache import record
from haulage.compiler.cache.values import Digest, NotByValue, options_text
from haulage.compiler.code import Code
from haulage.compiler.options import Options
from haulage.compiler.versions import GENERAL
from haulage.disk_cache import software, store
from haulage.disk_cache.folder import warn_once
from haulage.errors import CompileError
from haulage.forks import cached_property

if TYPE_CHECKING:
    from haulage.compiler.body import Body


def digest(
    function: Callable[..., Any], keys: tuple[Any, ...], target: tuple[str, ...], options: Options
) -> Digest:
    """Everything that the code for arguments with `keys` is made from.

    Raises:
        NotByValue: the function reaches something that cannot be compared between processes.
    """
    reached = Digest()
    reached.add(tuple(sorted(software.versions().items())), "versions")
    reached.add(target, "target")
    reached.add(options_text(options), "options")
    reached.add(function, function.__qualname__)
    reached.add(keys, "arguments")
    return reached


class KeptBody:
    """A kernel for one signature, as `Body`, which is made of it where code is missing on disk.

    `found` says whether the first thing that was asked for was there; None before.
    Thread safe: each code is looked for and made once.

    What the function reached when this was made is what its code is for. If that has changed when
    code is missing, the code is made as it is now and not kept.
    """

    def __init__(
        self, name: str, make: Callable[[], "Body"], reach: Callable[[], Digest], reached: Digest
    ) -> None:
        self.name = name
        self.found: bool | None = None
        self._make_body = make
        self._reach = reach
        self._reached = reached
        self._key = reached.hexdigest()
        self._body: Body | None = None
        self._unchanged = True
        self._made: dict[tuple[tuple[int, int, int], str, str], Code] = {}
        self._lock = forks.lock()

    @property
    def body(self) -> "Body":
        """The body itself; typed and lowered when first asked for."""
        with self._lock:
            if self._body is None:
                self._body = self._make_body()
                self._unchanged = self._reach_now() == self._key
            return self._body

    @property
    def lowered(self) -> Any:
        """What the front end makes of the function."""
        return self.body.lowered

    def check(self) -> None:
        """Type and lower the function, unless it is known on disk that this can be done.

        Raises:
            CompileError: it cannot.
        """
        with self._lock:
            key = f"{self._key}-typed"
            found = store.load(key) is not None
            self._note(found)
            if not found:
                body = self.body
                if self._unchanged:
                    store.save(key, {"name": body.name}, b"")

    def code(self, block: tuple[int, int, int], way: str, version: str = GENERAL) -> Code:
        """Code for blocks of `block` threads, run in one of `transform.WAYS`, of a version.

        Raises:
            CompileError: as `Body.code`.
        """
        with self._lock:
            asked = block, way, version
            made = self._made.get(asked)
            if made is None:
                made = self._made[asked] = self._find(*asked) or self._make(*asked)
            return made

    @cached_property
    def access(self) -> Accesses:
        """What it does with its arguments, as `Body.access`.

        Raises:
            CompileError: as `Body.access`.
        """
        with self._lock:
            key = f"{self._key}-access"
            kept = store.load(key)
            self._note(kept is not None)
            if kept is not None:
                return Accesses.of_facts(kept[0])
            access = self.body.access
            if self._unchanged:
                store.save(key, access.facts(), b"")
            return access

    def _find(self, block: tuple[int, int, int], way: str, version: str) -> Code | None:
        kept = store.load(self._code_key(block, way, version))
        code = None
        if kept is not None:
            code = record.code_of(
                *kept, self.name, self._reached, lambda: self.body.code(block, way, version)
            )
        self._note(code is not None)
        return code

    def _make(self, block: tuple[int, int, int], way: str, version: str) -> Code:
        code = self.body.code(block, way, version)
        if self._unchanged:
            code = self._assembled(code)
            try:
                facts = record.facts_of(code, self._reached)
            except NotByValue as error:
                warn_once(f"kernel {self.name} is not kept in the cache: {error}")
            else:
                store.save(self._code_key(block, way, version), facts, record.data_of(code))
        return code

    def _assembled(self, code: Code) -> Code:
        """The code with machine code beside it, where the driver would have to assemble it in each
        process and an assembler is there."""
        if not code.is_ptx:
            return code
        from haulage.compiler.gpu.nvidia import assembler

        if not assembler.is_there():
            return code
        try:
            return replace(code, machine_code=assembler.machine_code(code.code))
        except CompileError as error:
            # As of an assembler that is older than the GPU.
            warn_once(f"kernel {self.name} is kept in the cache without machine code: {error}")
            return code

    def _code_key(self, block: tuple[int, int, int], way: str, version: str) -> str:
        of_version = f"-{version}" if version else ""
        return f"{self._key}-{'x'.join(map(str, block))}-{way}{of_version}"

    def _note(self, found: bool) -> None:
        if self.found is None:
            self.found = found

    def _reach_now(self) -> str | None:
        try:
            return self._reach().hexdigest()
        except NotByValue:
            return None
