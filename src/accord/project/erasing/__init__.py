"""Erasing personal data of a project: selection, inventory, retention, and the data of one person."""
