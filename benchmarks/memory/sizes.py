"""The sizes of the case `sizes`: elements of arrays of float32, 4 B to 64 kB, in a fixed order."""

import random

_rng = random.Random(3)
SIZES = [int(2 ** (14 * _rng.random())) for _ in range(40)]
