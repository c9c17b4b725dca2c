"""``fabriscope`` and ``python -m fabriscope``: the command line of the program."""

from __future__ import annotations

import signal
import sys

from fabriscope import _fabriscope


def main() -> int:
    """Run the command line of this process; gives its exit status."""
    # The program answers Ctrl-C itself, and a closed pipe ends it with a message of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _fabriscope.main([sys.executable, "-m", "fabriscope"], ["fabriscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
