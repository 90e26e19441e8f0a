"""Readers of labels, annotations and answers."""
