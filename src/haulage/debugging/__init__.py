"""`haulage debug` inside the program that it runs: which launch stops in the debugger."""
