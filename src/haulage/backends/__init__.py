"""Back ends: one class a driver, behind the seam of `base.py`."""
