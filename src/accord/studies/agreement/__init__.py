"""Agreement of annotators, and sentences about it."""
