"""What was copied between places, why, and by which lines of the program."""
