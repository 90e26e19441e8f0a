"""Environment and fixtures, shared with the tests of Accord."""

from conftest import secrets_of_a_test_are_forgotten  # noqa: F401 - importing the module also sets the environment
