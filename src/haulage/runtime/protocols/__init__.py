"""What arrays of other libraries offer: DLPack, and the CUDA array interface."""
