"""`python -m haulage`: the same as the `haulage` command."""

import sys

from haulage.cli import main

if __name__ == "__main__":
    sys.exit(main())
