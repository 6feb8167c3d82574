"""What an interrupted wait stops: the kernels that it waited for, and those that come after."""

from collections.abc import Callable, Iterable

from haulage.backends.cpu_driver.tasks import Task

_WHY = "by Ctrl-C, or another exception of a signal's handler, that came to who waited for it"
RUNNING = f"a kernel of the cpu device was stopped {_WHY}: what its finished blocks wrote is there"
DROPPED = (
    f"kernels of this stream did not run: one that they came after was stopped {_WHY}; launch them "
    "again"
)


def nothing(*args: object) -> None:
    """What a task does in the place of a kernel that was dropped."""


def doomed(
    open_tasks: Iterable[Task], waited_for: Iterable[Task | None], is_kernel: Callable[[Task], bool]
) -> list[Task]:
    """The kernels among what `waited_for` needs, and all tasks that come after one of them.

    `open_tasks` are such that all tasks that are not done come after them.
    """
    found: dict[Task, list[Task]] = {
        task: [] for task in open_tasks if not task.done
    }  # before each
    left = list(found)
    while left:
        task = left.pop()
        for follower in task.followers:
            if follower not in found:
                found[follower] = []
                left.append(follower)
            found[follower].append(task)
    needed: set[Task] = set()
    left = [task for task in waited_for if task is not None and task in found]
    while left:
        task = left.pop()
        if task not in needed:
            needed.add(task)
            left += found[task]
    return followers_of([task for task in found if task in needed and is_kernel(task)])


def followers_of(tasks: Iterable[Task]) -> list[Task]:
    """Some tasks, and all that come after them."""
    found = dict.fromkeys(tasks)
    left = list(found)
    while left:
        for follower in left.pop().followers:
            if follower not in found:
                found[follower] = None
                left.append(follower)
    return list(found)
