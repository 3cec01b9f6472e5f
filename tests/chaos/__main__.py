"""`python -m tests.chaos power --rounds 500 --seed 7`; see `campaign`."""

import sys

from tests.chaos.campaign import main

if __name__ == "__main__":
    sys.exit(main())
