"""Version, in a module that imports nothing else.

>>> __version__.count(".")
2
"""

__version__ = "0.3.0"
"""Version of the package: major, minor and patch."""
