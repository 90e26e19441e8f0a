"""Evidence: what is known of a conversation before anyone learns from it."""

from accord.evidence import lexical as _lexical  # noqa: F401 - registers its metrics
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
from accord.evidence.bank.reference import score
from accord.evidence.bank.ruber import FOLDS, Pair, Relatedness, Ruber, Unreferenced, fold_of, pairs_of
from accord.evidence.bank.session import NOTHING, WORDLESS, MetricSession, measured
from accord.evidence.bank.words import STOP_WORDS, counted_stems, pieces, stems, tokens
from accord.evidence.likelihood import LIKELIHOOD, Likelihoods, measure_likelihoods, passages_of
from accord.evidence.meaning import MEANING, Meaning
from accord.evidence.metrics import (
    GROUPS,
    LEXICAL,
    Metric,
    Metrics,
    measure,
    metric_names,
    metrics,
    signature_of,
)
from accord.evidence.pairs import differences, in_pairs
from accord.evidence.ratings import Ratings, options_of, ratings
from accord.evidence.rubric_answers import RubricAnswers, answer_table, ask_rubric, judge_samples
from accord.evidence.source import (
    Arrays,
    Counts,
    Gathered,
    Learned,
    Settings,
    Source,
    SourceContext,
    State,
    Training,
    joined,
    make_source,
    measure_all,
    sources,
)
from accord.evidence.table import Column, EvidenceTable, Note

__all__ = [
    "Arrays",
    "BANK",
    "BERTSCORE",
    "CIU",
    "Column",
    "Counts",
    "EMBEDDING",
    "EvidenceTable",
    "FOLDS",
    "GROUPS",
    "Gathered",
    "LEXICAL",
    "LIKELIHOOD",
    "Learned",
    "Likelihoods",
    "MEANING",
    "Meaning",
    "Metric",
    "MetricSession",
    "Metrics",
    "NOTHING",
    "Note",
    "PAPER_EFFORT",
    "Pair",
    "ParsedDocument",
    "ParsedText",
    "Passage",
    "REFERENCE",
    "Ratings",
    "Relatedness",
    "Ruber",
    "RubricAnswers",
    "STOP_WORDS",
    "Settings",
    "Source",
    "SourceContext",
    "State",
    "Training",
    "TurnHistory",
    "TurnMetric",
    "Unreferenced",
    "WORDLESS",
    "answer_table",
    "ask_rubric",
    "best_phrases",
    "counted_stems",
    "differences",
    "fold_of",
    "in_pairs",
    "joined",
    "judge_samples",
    "make_source",
    "measure",
    "measure_all",
    "measure_likelihoods",
    "measured",
    "metric_names",
    "metrics",
    "options_of",
    "pairs_of",
    "parsed_document",
    "passages_of",
    "phrases",
    "pieces",
    "ratings",
    "score",
    "signature_of",
    "sources",
    "stems",
    "tokens",
    "turn_metrics",
]
