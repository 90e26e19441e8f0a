"""The command line: a command parses, calls one library function, prints. Heavy imports wait inside the commands."""

from accord.cli.app import app, main

__all__ = [
    "app",
    "main",
]
