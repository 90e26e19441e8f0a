"""HTTP service of live scoring (`accord[serve]`); `accord.live` exports its public names."""
