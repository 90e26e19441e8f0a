"""Evidence: what is known of a conversation before anyone learns from it."""

from accord.evidence.bank import BANK, BERTSCORE, EMBEDDING, REFERENCE
from accord.evidence.bank.ciu import CIU, PAPER_EFFORT, best_phrases, phrases
from accord.evidence.bank.message import (
    ParsedDocument,
    ParsedText,
    Passage,
    TurnHistory,
    TurnMetric,
    parsed_document,
    turn_metrics,
)
from accord.evidence.bank.reference import align, score, stages
from accord.evidence.bank.ruber import FOLDS, Pair, Relatedness, Ruber, Unreferenced, fold_of, pairs_of
from accord.evidence.bank.session import MetricSession, measured
from accord.evidence.bank.words import STOP_WORDS, counted_stems, pieces, stems, tokens
from accord.evidence.lexical import LEXICAL
from accord.evidence.likelihood import LIKELIHOOD, key_of_passage, measure_likelihoods, passages_of
from accord.evidence.meaning import MEANING, measure_meaning
from accord.evidence.metrics import NOTHING, Metric, measure, metrics, signature_of
from accord.evidence.pairs import differences, in_pairs
from accord.evidence.rubric_answers import (
    AT_ONCE,
    NOT_APPLICABLE,
    Judged,
    answer_table,
    judge_all,
    judge_samples,
    judging_signature,
)
from accord.evidence.table import Column, EvidenceTable

__all__ = [
    "AT_ONCE",
    "BANK",
    "BERTSCORE",
    "CIU",
    "Column",
    "EMBEDDING",
    "EvidenceTable",
    "FOLDS",
    "Judged",
    "LEXICAL",
    "LIKELIHOOD",
    "MEANING",
    "Metric",
    "MetricSession",
    "NOTHING",
    "NOT_APPLICABLE",
    "PAPER_EFFORT",
    "Pair",
    "ParsedDocument",
    "ParsedText",
    "Passage",
    "REFERENCE",
    "Relatedness",
    "Ruber",
    "STOP_WORDS",
    "TurnHistory",
    "TurnMetric",
    "Unreferenced",
    "align",
    "answer_table",
    "best_phrases",
    "counted_stems",
    "differences",
    "fold_of",
    "in_pairs",
    "judge_all",
    "judge_samples",
    "judging_signature",
    "key_of_passage",
    "measure",
    "measure_likelihoods",
    "measure_meaning",
    "measured",
    "metrics",
    "pairs_of",
    "parsed_document",
    "passages_of",
    "phrases",
    "pieces",
    "score",
    "signature_of",
    "stages",
    "stems",
    "tokens",
    "turn_metrics",
]
