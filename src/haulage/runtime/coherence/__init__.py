"""Where the current bytes of an array are that has replicas in several places.

`coherence` is the protocol that arrays use. It and the services (`acquisition`, `updates`,
`writes`, `eviction`, `refresh`) work on the `state` of one storage, with its `borrows` and
`exports`.
"""

from haulage.runtime.coherence.coherence import Coherence
from haulage.runtime.coherence.state import Mode, Place
from haulage.runtime.transfers.entries import HOST

__all__ = ["HOST", "Coherence", "Mode", "Place"]
