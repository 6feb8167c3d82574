"""`haulage cache`: the compiled kernels that are kept on disk, and throwing them away."""

import argparse

from haulage.cli.refusal import Refusal
from haulage.disk_cache import folder as folders
from haulage.disk_cache import store
from haulage.disk_cache.folder import Folder


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this command to the command line."""
    parser = commands.add_parser(
        "cache",
        help="compiled kernels kept on disk: where, how many; clear throws them away",
        description="Show where the code of kernels made with cache=True is kept "
        "(HAULAGE_CACHE_DIR), how much there is, and whether it is used. `clear` throws all "
        "of it away; programs that run go on, and the next ones compile anew.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear"),
        default="show",
        help="show (the default) or clear",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Show or clear the cache; returns 1 if what is there is not used, else 0."""
    try:
        folder = store.folder()
    except RuntimeError as error:
        raise Refusal(f"no place for compiled kernels: {error}") from error
    return _clear(folder) if chosen.action == "clear" else _show(folder)


def _show(folder: Folder) -> int:
    try:
        problem = folder.problem()
        kept = folder.files()
    except OSError as error:
        raise Refusal(f"cannot read {folder.path}: {error.strerror}") from error
    nbytes = sum(file.nbytes for file in kept)
    print(f"folder   {folder.path}")
    print(f"entries  {len(kept)} of at most {folders.MOST_FILES}")
    print(f"bytes    {nbytes} of at most {folders.MOST_BYTES}")
    if problem is not None:
        print(f"unused   {problem}")
    return 0 if problem is None else 1


def _clear(folder: Folder) -> int:
    try:
        dropped = folder.clear()
    except OSError as error:
        raise Refusal(f"cannot clear {folder.path}: {error.strerror}") from error
    print(f"{dropped} entries dropped from {folder.path}")
    return 0
