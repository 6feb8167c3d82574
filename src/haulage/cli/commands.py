"""A command line that says which word was meant."""

import argparse
from typing import Any

from haulage.spelling import did_you_mean


class Parser(argparse.ArgumentParser):
    """Its commands are of this class too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise
