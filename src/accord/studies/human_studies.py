"""Outcomes of the built-in studies of issues (`accord.studies.shipped_studies`).

`detection` asks if the issues are correct (SODA-EVAL, figure 9). In `overall`, annotators rate a turn with the dialogue
alone, and then again with its issues (figure 10). Both are studies of turns that a model assessed. In `analysis`,
annotators mark issues themselves (table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.results import text_table
from accord.statistics import (
    RANK_DRAWS,
    Clusters,
    counted,
    estimate_from_draws,
    fleiss_kappa,
    mean_kappa,
    no_fleiss,
    pairwise_kappas,
)
from accord.studies.agreement.annotators import agreement_with_all, agreement_with_model, agreement_with_others
from accord.values import Estimate, IssueAnnotation, Target, Taxonomy

DETECTION, OVERALL, ANALYSIS = "detection", "overall", "analysis"
VALIDITY, INITIAL, REVISED = "validation:detection", "validation:initial", "validation:revised"
VALIDITY_WORDS = {0: "bad", 1: "fair", 2: "good"}
NO_ISSUE = "None"
"""Kind of a turn without issues."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]
Answers = Mapping[tuple[str, Target, str], int]
"""Answers by annotator, turn and question."""


@dataclass(frozen=True)
class ValidatedTurns:
    """Sampled turns of a study, and the signature of the model whose issues are validated."""

    flow: str
    signature: str
    turns: tuple[Target, ...]


@dataclass(frozen=True)
class StudyOutcome:
    """Outcome of a study so far.

    `examples` of `planned` sampled turns have answers; `lines` are blocks of plain text for a terminal.
    """

    flow: str
    signature: str
    planned: int
    examples: int
    results: Mapping[str, Any]
    lines: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the results by name."""
        fields = asdict(self)
        del fields["lines"]
        return {**fields, **fields.pop("results")}


@dataclass(frozen=True)
class TurnAnswers:
    """Answers to one question.

    Attributes:
        targets: N turns, sorted.
        annotators: A names, sorted.
        answers: (N, A) answers; NaN for no answer.
    """

    targets: tuple[Target, ...]
    annotators: tuple[str, ...]
    answers: Floats


def answer_tables(answers: Answers, questions: Sequence[str], turns: Iterable[Target]) -> list[TurnAnswers]:
    """Return one table per question with the same turns and annotators.

    A rating counts if the annotator answered all questions about the turn.
    """
    known = set(turns)
    complete = sorted(
        {
            (name, turn)
            for name, turn, _ in answers
            if turn in known and all((name, turn, question) in answers for question in questions)
        }
    )
    targets, people = sorted({turn for _, turn in complete}), sorted({name for name, _ in complete})
    row, column = ({key: place for place, key in enumerate(keys)} for keys in (targets, people))
    tables = []
    for question in questions:
        matrix = np.full((len(targets), len(people)), np.nan)
        for name, turn in complete:
            matrix[row[turn], column[name]] = answers[name, turn, question]
        tables.append(TurnAnswers(tuple(targets), tuple(people), matrix))
    return tables


@dataclass(frozen=True)
class DialogueResampling:
    """Bootstrap samples of whole dialogues, shared by all statistics.

    Attributes:
        rows: (N,) indices of all rows.
        draws: Row indices of each sample, with repetitions.
    """

    rows: Indices
    draws: tuple[Indices, ...]

    @classmethod
    def of(cls, targets: Sequence[Target], draws: int = RANK_DRAWS, seed: int = 0) -> DialogueResampling:
        """Sample the dialogues of some turns; fewer than two dialogues yield no samples."""
        clusters = Clusters([turn.conversation for turn in targets]) if targets else None
        has_draws = clusters is not None and len(clusters) > 1
        samples = tuple(map(clusters.rows, clusters.counts(draws, seed))) if clusters and has_draws else ()
        return cls(np.arange(len(targets)), samples)

    def estimate(self, statistic: Callable[[Indices], float | None]) -> Estimate:
        """Return a statistic of row indices with its interval."""
        value = statistic(self.rows) if len(self.rows) else None
        if value is None or not self.draws:
            return Estimate(value)
        drawn = [statistic(rows) for rows in self.draws]
        return estimate_from_draws(value, np.array([np.nan if each is None else each for each in drawn]))

    def share(self, holds: Flags, among: Flags) -> Estimate:
        """Return the share of the rows `among` (N,) for which `holds` (N,) is true."""

        def statistic(rows: Indices) -> float | None:
            selected = holds[rows][among[rows]]
            return float(selected.mean()) if len(selected) else None

        return self.estimate(statistic)


# --- detection: validity of issues ----------------------------------------------------------------------------------


def majority_valid(answers: Floats) -> Flags:
    """(N,) True if more than half of the answers (N, A) are fair or good."""
    return np.asarray((answers >= 1).sum(axis=1) * 2 > (~np.isnan(answers)).sum(axis=1))


def not_all_bad(answers: Floats) -> Flags:
    """(N,) True if any of the answers (N, A) is fair or good."""
    return np.asarray((answers >= 1).any(axis=1))


def detection_outcome(
    answers: Answers,
    turns: ValidatedTurns,
    assessments: Iterable[IssueAnnotation],
    taxonomy: Taxonomy,
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> StudyOutcome:
    """Return the validity of issues and the agreement of annotators.

    `valid` is the mean over annotators of the share of valid turns, and `valid_range` the lowest and the highest share.
    `majority` is the share of turns that more than half of the annotators call fair or good, and `all_agree` the share
    that not all call bad. `cohen_kappa` is the mean over pairs on the three answers, and `cohen_kappa_valid` on valid
    and not valid.

    Args:
        answers: Answers of the annotators.
        turns: Sampled turns.
        assessments: Issues of the turns.
        taxonomy: Kinds of issues; objective kinds have a validity.
        draws: Number of bootstrap samples of whole dialogues.
        seed: Seed of the samples.
    """
    assessed = {each.target: each for each in assessments if each.signature == turns.signature}
    [table] = answer_tables(answers, [VALIDITY], assessed)
    resampling, matrix = DialogueResampling.of(table.targets, draws, seed), table.answers
    valid = np.where(np.isnan(matrix), np.nan, matrix >= 1)
    annotators = [
        {"annotator": name, "answers": int((~np.isnan(own)).sum()), "valid": _valid_share(own)}
        for name, own in zip(table.annotators, matrix.T, strict=True)
    ]
    shares = [share for own in matrix.T if (share := _valid_share(own)) is not None]
    counts, everywhere = counted(matrix, tuple(VALIDITY_WORDS)), np.ones(len(table.targets), dtype=bool)
    fleiss = resampling.estimate(lambda rows: fleiss_kappa(counts[rows]))
    majority = resampling.share(majority_valid(matrix), everywhere)
    all_agree = resampling.share(not_all_bad(matrix), everywhere)
    kappa = resampling.estimate(lambda rows: mean_kappa(matrix[rows]))
    kinds = _kind_validity(matrix, [assessed[turn] for turn in table.targets], taxonomy, resampling)
    valid_range = [min(shares), max(shares)] if shares else None
    results = {
        "answers": int((~np.isnan(matrix)).sum()),
        "answers_by_value": [
            {"value": value, "word": word, "answers": int((matrix == value).sum())}
            for value, word in VALIDITY_WORDS.items()
        ],
        "annotators": annotators,
        "valid": resampling.estimate(lambda rows: _mean_valid_share(matrix[rows])),
        "valid_range": valid_range,
        "majority": majority,
        "all_agree": all_agree,
        "types": kinds,
        "cohen_kappa": kappa,
        "cohen_kappa_valid": resampling.estimate(lambda rows: mean_kappa(valid[rows])),
        "pairs": [
            {"first": table.annotators[first], "second": table.annotators[second], "shared": shared, "kappa": kappa}
            for first, second, shared, kappa in pairwise_kappas(matrix)
        ],
        "fleiss_kappa": {**asdict(fleiss), "undefined": no_fleiss(counts)},
    }
    whole = {"type": "all", "examples": len(table.targets), "majority": majority, "all_agree": all_agree}
    rows = [
        [row["type"], str(row["examples"]), row["majority"].text(), row["all_agree"].text()]
        for row in [*kinds, whole]
        if row["examples"]
    ]
    low, high = (Estimate(end).text() for end in valid_range or (None, None))
    lines = [
        text_table(["issue", "turns", "valid (majority)", "valid (unless all say bad)"], rows),
        f"{len(annotators)} annotators; each calls {low} to {high} of the turns valid",
        f"κ of pairs {kappa.text()}, Fleiss' κ {fleiss.text()}",
    ]
    return StudyOutcome(DETECTION, turns.signature, len(turns.turns), len(table.targets), results, lines)


def _valid_share(answers: Floats) -> float | None:
    given = answers[~np.isnan(answers)]
    return float((given >= 1).mean()) if len(given) else None


def _mean_valid_share(answers: Floats) -> float | None:
    shares = [share for own in answers.T if (share := _valid_share(own)) is not None]
    return float(np.mean(shares)) if shares else None


def _kind_validity(
    answers: Floats, assessments: Sequence[IssueAnnotation], taxonomy: Taxonomy, resampling: DialogueResampling
) -> list[dict[str, Any]]:
    """Return table 13: "None", the kinds in the taxonomy's order, then kinds of other taxonomies.

    A kind has the number and share of its turns, and the valid share by both rules; subjective kinds have no validity.
    """
    objective: dict[str, bool | None] = {NO_ISSUE: True, **{kind.name: kind.objective for kind in taxonomy.issues}}
    kinds = [{issue.type for issue in each.issues} or {NO_ISSUE} for each in assessments]
    objective |= dict.fromkeys(sorted({name for names in kinds for name in names} - set(objective)), None)
    rules = majority_valid(answers), not_all_bad(answers)
    rows = []
    for name, is_objective in objective.items():
        among = np.array([name in names for names in kinds], dtype=bool)
        majority, all_agree = (resampling.share(rule, among) if is_objective else Estimate() for rule in rules)
        share = float(among.mean()) if len(among) else None
        rows.append({"type": name, "objective": is_objective, "examples": int(among.sum()), "share": share,
                     "majority": majority, "all_agree": all_agree})  # fmt: skip
    return rows


# --- overall: ratings before and after issues are shown --------------------------------------------------------------


def overall_outcome(
    answers: Answers,
    turns: ValidatedTurns,
    assessments: Iterable[IssueAnnotation],
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> StudyOutcome:
    """Return the agreement of ratings of the dialogue alone and with its issues, and the number of revisions.

    Only ratings with both stages count; `without_second` ratings lack the second one. Arguments are as in
    `detection_outcome`; assessments also hold the model's scores.
    """
    assessed = {each.target: each for each in assessments if each.signature == turns.signature}
    initial, revised = answer_tables(answers, [INITIAL, REVISED], assessed)
    resampling = DialogueResampling.of(initial.targets, draws, seed)
    model = np.array([assessed[turn].score for turn in initial.targets], dtype=float)
    has_issues = np.array([bool(assessed[turn].issues) for turn in initial.targets], dtype=bool)
    ratings = int((~np.isnan(initial.answers)).sum())
    stages = [_stage(table.answers, model, resampling) for table in (initial, revised)]
    revisions = _revisions(initial.answers, revised.answers, has_issues, resampling)
    results = {
        "ratings": ratings,
        "without_second": sum(question == INITIAL for _, _, question in answers) - ratings,
        "initial": stages[0],
        "revised": stages[1],
        "change": _change(initial.answers, revised.answers, model, resampling),
        "revisions": revisions,
    }
    labels = {
        "agreement_with_all": "annotator with mean of all",
        "agreement_with_others": "annotator with mean of the others",
        "agreement_with_model": "mean of all with the model",
    }
    rows = [[label, *(stage[name].text() for stage in stages)] for name, label in labels.items()]
    lines = [
        text_table(["Spearman", "dialogue alone", "with issues"], rows),
        f"{revisions['share'].text()} of {ratings} revised: {revisions['lower']} down, {revisions['higher']} up",
    ]
    return StudyOutcome(OVERALL, turns.signature, len(turns.turns), len(initial.targets), results, lines)


def _mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if (~np.isnan(values)).any() else None


def _agreement(estimate: Callable[[Callable[[Floats, Floats], float | None]], Estimate]) -> dict[str, Estimate]:
    """Estimate Spearman's ρ of (N, A) ratings with each other and with the model's (N,) scores, and their distance."""
    return {
        "agreement_with_all": estimate(lambda ratings, _: agreement_with_all(ratings)),
        "agreement_with_others": estimate(lambda ratings, _: agreement_with_others(ratings)),
        "agreement_with_model": estimate(agreement_with_model),
        "distance_to_model": estimate(lambda ratings, model: _mean(np.abs(ratings - model[:, None]))),
    }


def _stage(ratings: Floats, model: Floats, resampling: DialogueResampling) -> dict[str, Estimate]:
    agreement = _agreement(lambda of: resampling.estimate(lambda rows: of(ratings[rows], model[rows])))
    return {**agreement, "mean": resampling.estimate(lambda rows: _mean(ratings[rows]))}


def _change(initial: Floats, revised: Floats, model: Floats, resampling: DialogueResampling) -> dict[str, Estimate]:
    """Return revised minus initial on the same samples."""

    def difference(of: Callable[[Floats, Floats], float | None]) -> Estimate:
        def statistic(rows: Indices) -> float | None:
            before, after = (of(ratings[rows], model[rows]) for ratings in (initial, revised))
            return None if before is None or after is None else after - before

        return resampling.estimate(statistic)

    return _agreement(difference)


def _revisions(initial: Floats, revised: Floats, has_issues: Flags, resampling: DialogueResampling) -> dict[str, Any]:
    """Return the number, share, direction and mean step of revised ratings."""
    step = revised - initial
    rated, moved = ~np.isnan(step), ~np.isnan(step) & (step != 0)

    def share(rows: Indices) -> float | None:
        return float(moved[rows].sum() / rated[rows].sum()) if rated[rows].any() else None

    return {
        "revised": int(moved.sum()),
        "share": resampling.estimate(share),
        "lower": int((step < 0).sum()),
        "higher": int((step > 0).sum()),
        "unchanged": int((step == 0).sum()),
        "mean_step": resampling.estimate(lambda rows: _mean(step[rows])),
        "revised_with_issues": int(moved[has_issues].sum()),
        "revised_without_issues": int(moved[~has_issues].sum()),
    }


# --- analysis: issues that annotators mark ---------------------------------------------------------------------------


def analysis_outcome(
    complete: Iterable[tuple[str, str]],
    marks: Iterable[tuple[str, Target, str]],
    replies: Mapping[str, Sequence[Target]],
    planned: int,
    taxonomy: Taxonomy,
    seed: int = 0,
) -> StudyOutcome:
    """Return table 2: the share of replies with each kind of issue, and of those without any.

    A reply counts once per annotator of its dialogue.

    Args:
        complete: Annotator and dialogue of each dialogue in which all issues are marked.
        marks: Annotator, turn and kind of each mark.
        replies: Replies of each dialogue.
        planned: Number of sampled dialogues.
        taxonomy: Kinds of issues, in the order of the table.
        seed: Seed of the bootstrap of dialogues.
    """
    read = sorted(set(complete))
    rows = [(person, turn) for person, dialogue in read for turn in replies[dialogue]]
    kinds_of: dict[tuple[str, Target], set[str]] = {}
    for person, turn, kind in marks:
        kinds_of.setdefault((person, turn), set()).add(kind)
    resampling = DialogueResampling.of([turn for _, turn in rows], seed=seed)
    everywhere = np.ones(len(rows), dtype=bool)
    shares: list[dict[str, Any]] = []
    for name in (NO_ISSUE, *taxonomy.names):
        holds = np.array([name in (kinds_of.get(row) or {NO_ISSUE}) for row in rows], dtype=bool)
        shares.append({"type": name, "replies": int(holds.sum()), "share": resampling.share(holds, everywhere)})
    people, dialogues = {person for person, _ in read}, {dialogue for _, dialogue in read}
    results = {"annotators": len(people), "replies": len(rows), "types": shares}
    lines = [
        text_table(["issue", "replies", "share"], [[r["type"], str(r["replies"]), r["share"].text()] for r in shares]),
        f"{len(rows)} readings of replies, {len(dialogues)} dialogues, {len(people)} annotators",
    ]
    return StudyOutcome(ANALYSIS, "", planned, len(dialogues), results, lines)
