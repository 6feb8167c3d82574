"""y = a * x + y on whatever device there is: `python examples/saxpy.py`."""

import numpy as np

from haulage import cuda


@cuda.jit
def saxpy(a, x, y):
    """One element a thread."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i]


def main() -> None:
    """Run it over a million elements and compare with NumPy."""
    x = np.arange(1_000_000, dtype=np.float32)
    y = np.ones_like(x)
    d_x, d_y = cuda.to_device(x), cuda.to_device(y)
    saxpy[3907, 256](np.float32(2), d_x, d_y)
    result = d_y.copy_to_host()
    assert np.array_equal(result, 2 * x + y)
    print(f"{result[:4]} on {cuda.get_current_device()}")


if __name__ == "__main__":
    main()
