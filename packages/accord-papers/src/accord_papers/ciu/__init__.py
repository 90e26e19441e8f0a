"""CIU and MoE-CIU (Choi et al.): single metrics, combinations of metrics, and the plausibility check."""
