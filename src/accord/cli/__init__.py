"""The command line: a command parses, calls one library function, prints. Heavy imports wait inside the commands."""

from accord.cli.app import app, guarded, main
from accord.cli.findings import fitted_text
from accord.cli.show import Progress

__all__ = [
    "Progress",
    "app",
    "fitted_text",
    "guarded",
    "main",
]
