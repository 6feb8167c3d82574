"""Back ends that stand in for drivers in tests, and programs and kernels that tests share."""
