"""Agreement of annotators, and sentences that describe it."""
