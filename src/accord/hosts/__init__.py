"""Evaluators inside other tools: one module per tool, each of which uses the public API of its tool.

Import the module of a tool, such as `accord.hosts.mlflow`; the package itself has no names. Only commands import it.
"""
