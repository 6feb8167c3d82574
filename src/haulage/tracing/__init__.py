"""`haulage trace` inside the program that it runs: what is recorded, and what is made of it."""
