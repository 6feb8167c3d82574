"""What happens at run time: devices, memory, streams, events, arrays, copies and launches."""
