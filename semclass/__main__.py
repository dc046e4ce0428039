"""``python -m semclass`` is the command line."""

from semclass.cli.main import main

if __name__ == "__main__":
    main()
