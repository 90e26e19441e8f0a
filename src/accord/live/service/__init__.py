"""Live scoring over HTTP (`accord[serve]`); its public names are those of `accord.live`."""
