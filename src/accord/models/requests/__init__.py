"""Requests to models: flows, budget, exchange, client, batch files, streaming and parsing of replies."""
