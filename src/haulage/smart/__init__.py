"""SmartArray: an array that moves itself to where it is used, and only then."""

from haulage.smart.array import SmartArray

__all__ = ["SmartArray"]
