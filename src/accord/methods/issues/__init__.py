"""Issue detection: issues of each turn with quotes and severity (Mendonça et al., *SODA-EVAL*, 2024)."""
