"""`haulage advise` inside the program that it runs: which copies repeated unchanged data."""
