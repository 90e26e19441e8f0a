"""Plug-in of the tests: projects use the small profile of `accord.testing` where they name no other settings.

One repetition on two folds with 20 draws takes a tenth of the processor time of the defaults. A test that is about the
defaults, or about figures that need them, has the marker `defaults`; examples in docstrings show the defaults.
"""

from __future__ import annotations

import pytest

from accord.project import Config
from accord.testing import SMALL_PROFILE

_DEFAULTS = {name: Config.model_fields[name].default for name in SMALL_PROFILE}


def has_defaults_of_users() -> bool:
    return all(Config.model_fields[name].default == value for name, value in _DEFAULTS.items())


def set_defaults(of_users: bool) -> None:
    """Make the defaults of users, or those of the small profile, the defaults of all projects of this process."""
    if of_users != has_defaults_of_users():
        for name, value in (_DEFAULTS if of_users else SMALL_PROFILE).items():
            Config.model_fields[name].default = value
        Config.model_rebuild(force=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    set_defaults(isinstance(item, pytest.DoctestItem) or item.get_closest_marker("defaults") is not None)
