"""Issues: what is wrong with each turn, which words show it, how bad it is (Mendonça et al., *SODA-EVAL*, 2024)."""
