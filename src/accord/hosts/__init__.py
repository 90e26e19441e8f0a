"""Adapters of hosts: one module for each, with the packages of that host as an extra."""
