"""Arrays, records and other views of memory, and copies between them."""
