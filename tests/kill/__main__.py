"""`python -m tests.kill --kills 1000 --seed 7`; see `campaign`."""

import sys

from tests.kill.campaign import main

if __name__ == "__main__":
    sys.exit(main())
