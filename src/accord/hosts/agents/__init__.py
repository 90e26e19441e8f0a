"""Accord for coding agents and chat clients: a skill, and a read-only server of the Model Context Protocol."""
