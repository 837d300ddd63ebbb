"""`python -m headstart`: the command line."""

from headstart.cli import main

if __name__ == "__main__":
    main()
