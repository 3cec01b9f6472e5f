"""`python -m tests.kill --kills 1000 --seed 7`; see `command`."""

import sys

from tests.kill.command import main

if __name__ == "__main__":
    sys.exit(main())
