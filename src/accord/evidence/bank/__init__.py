"""The metric bank: what a reply is worth, told from its words, its history and its documents, in microseconds.

One idea per file. Each metric is a function of one reply (`ParsedText`), of what was said before it (`TurnHistory`),
and of the documents (`ParsedDocument`s); it looks at nothing else, so that a live reply costs its own length. A
`MetricSession` goes through a conversation, live and in a batch alike.
"""
