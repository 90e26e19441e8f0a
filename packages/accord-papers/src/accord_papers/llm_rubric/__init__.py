"""LLM-RUBRIC (Hashemi et al., ACL 2024): protocols, baselines, ablations and oracles on its released data."""
