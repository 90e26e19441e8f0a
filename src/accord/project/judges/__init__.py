"""Verbs that ask models: judging, recorded judges, the audit, issues, synthesis and fine-tuning."""
