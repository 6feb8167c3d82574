"""What becomes code objects for AMD's GPUs."""
