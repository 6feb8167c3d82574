"""Where the current bytes of an array are that has copies in several places."""

from haulage.runtime.coherence.storage import HOST, Coherence, Mode, Place

__all__ = ["HOST", "Coherence", "Mode", "Place"]
