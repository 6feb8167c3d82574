"""Arrays of other libraries and of other processes."""
