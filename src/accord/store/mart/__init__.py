"""The mart of scores; `accord.store` exports its public names."""
