"""Evidence: what is known of a conversation before anyone learns from it."""

from accord.evidence.bank import BANK, BERTSCORE, EMBEDDING, REFERENCE, turn_metrics
from accord.evidence.bank.words import tokens as words
from accord.evidence.judging import AT_ONCE, NOT_APPLICABLE, Judged, answer_table, judge_all, judge_subjects
from accord.evidence.lexical import LEXICAL
from accord.evidence.likelihood import LIKELIHOOD, measure_likelihoods
from accord.evidence.metrics import Metric, measure, metrics
from accord.evidence.pairs import differences, in_pairs
from accord.evidence.table import Column, EvidenceTable

__all__ = [
    "AT_ONCE",
    "BANK",
    "BERTSCORE",
    "EMBEDDING",
    "LEXICAL",
    "LIKELIHOOD",
    "NOT_APPLICABLE",
    "REFERENCE",
    "Column",
    "EvidenceTable",
    "Judged",
    "Metric",
    "answer_table",
    "differences",
    "in_pairs",
    "judge_all",
    "judge_subjects",
    "measure",
    "measure_likelihoods",
    "metrics",
    "turn_metrics",
    "words",
]
