"""`python -m flowagent.cli`, for where the script is not on the path."""

import sys

from flowagent.cli import main

if __name__ == "__main__":
    sys.exit(main())
