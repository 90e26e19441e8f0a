"""Answer models: distributions over a question's options; `accord.learning` exports public names."""
