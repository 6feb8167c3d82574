"""Arrays that come from other libraries and other processes."""
