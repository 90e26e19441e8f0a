"""Plug-ins of all tests: those of Accord, those of the papers, and the examples in docstrings."""

pytest_plugins = ["processor_time", "small_profile"]
