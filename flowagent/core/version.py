"""The version of this package, stated once; it goes into every run's first record."""

from typing import Final

VERSION: Final = "0.1.0"
