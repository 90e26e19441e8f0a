"""Erasing personal data of a project: what to erase, where it is, retention, and the data of one person."""
