"""Live scoring over HTTP (`accord[serve]`): messages and traces in, scores and figures out."""
