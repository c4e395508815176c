"""``python -m firstfault`` and the ``firstfault`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Parse the command line and act; ``run`` acts outside of the parser, so that exits and signals are the script's."""
    from firstfault.cli import parse
    from firstfault.errors import FirstFaultError

    try:
        action = parse(sys.argv[1:])
        code = action()
    except FirstFaultError as error:
        sys.stderr.write(f"firstfault: {error}\n")
        sys.exit(error.exit_code)
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
