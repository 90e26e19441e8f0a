"""Metric bank: cheap features of a reply from its words, its history and its documents, in microseconds.

Each metric is a function of one reply (`ParsedText`), of the turns before it (`TurnHistory`) and of the documents
(`ParsedDocument`s) only, so that the cost of a live reply depends on its own length. A `MetricSession` walks through a
conversation, live and in batches.
"""
