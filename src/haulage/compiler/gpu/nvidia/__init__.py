"""What becomes PTX, and what is done with it; what AMD's GPUs share is a level above."""
