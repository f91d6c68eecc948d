"""``python -m wmlab``."""

from wmlab.cli.main import main

if __name__ == "__main__":
    main()
