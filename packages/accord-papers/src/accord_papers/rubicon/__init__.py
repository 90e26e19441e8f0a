"""RUBICON (Biyani et al., AIware 2024): baselines, ablations, tables and figures."""
