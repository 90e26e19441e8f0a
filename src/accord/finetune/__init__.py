"""Fine-tuning: a small model of your own learns to find issues and to rate (SODA-EVAL, section 5)."""

__all__ = []
