"""Assertions learned from good and bad conversations (Biyani et al., *RUBICON*, AIware 2024)."""
