"""Environment and fixtures, shared with the tests of Accord."""

from conftest import (  # noqa: F401 - importing the module also sets the environment
    api_key,
    load,
    memory,
    rubric,
    secrets_of_a_test_are_forgotten,
    working_folder,
)
