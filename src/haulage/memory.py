"""The memory of devices: how much is held, and by whom.

haulage.memory.stats()   bytes in use, by device and kind of memory
"""

from haulage.runtime.memory import Usage, stats

__all__ = ["Usage", "stats"]
