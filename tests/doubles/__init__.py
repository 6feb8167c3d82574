"""Back ends that stand in for drivers in tests."""
