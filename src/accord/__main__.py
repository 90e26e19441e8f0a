"""`python -m accord`."""

from accord.cli.app import main

if __name__ == "__main__":
    main()
