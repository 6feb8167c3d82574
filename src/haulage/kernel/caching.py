"""`jit(cache=True)`: kernels whose code is kept on disk."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from haulage.compiler.cache.kept import KeptBody, digest
from haulage.compiler.cache.values import NotByValue
from haulage.compiler.options import Options
from haulage.disk_cache import store
from haulage.disk_cache.folder import warn_once
from haulage.kernel.compilation import body_for
from haulage.kernel.vocabulary import Vocabulary
from haulage.platforms import PLATFORMS
from haulage.runtime.arrays.keys import Key

if TYPE_CHECKING:
    from haulage.compiler.body import Body


class CacheStats(NamedTuple):
    """`cache_path`: the folder, None without one. `cache_hits`, `cache_misses`: for each signature
    (a tuple of Numba types), whether it was there when it was first asked for, as 1."""

    cache_path: str | None
    cache_hits: "Counter[tuple[Any, ...]]"
    cache_misses: "Counter[tuple[Any, ...]]"


def kept_body(
    function: Callable[..., Any],
    keys: tuple[Key, ...],
    code_for: tuple[str, str],
    vocabulary: Vocabulary,
    options: Options,
) -> "KeptBody | Body":
    """A body whose code is kept; an ordinary one, with a warning, where that cannot be done."""
    kind, architecture = code_for
    platform = PLATFORMS[kind]

    def make() -> "Body":
        target = platform.device_target(architecture, vocabulary.warp_size)
        # What was compiled for another kernel may have read globals that have changed since.
        return body_for(function, keys, target, options, anew=True)

    def reach() -> Any:
        if options.linked:
            raise NotByValue("it is linked with code of others")
        target = (kind, str(vocabulary.warp_size), *platform.identity(architecture))
        return digest(function, keys, target, platform.options_of_code(options))

    store.use()
    try:
        reached = reach()
    except NotByValue as error:
        warn_once(f"kernel {function.__qualname__} is not kept in the cache: {error}")
        return make()
    return KeptBody(function.__qualname__, make, reach, reached)
