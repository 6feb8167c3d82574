"""What code is made for: frozen data and small hooks, without any driver."""
