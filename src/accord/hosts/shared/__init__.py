"""Parts that several hosts share: scores in another form, assertions and trials of tests, and sending of scores."""
