"""Text of results: plans, comparisons, fitted evaluators, imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accord.cli.terminal import figure_text, say, table
from accord.edges import count_of, one_line_json

if TYPE_CHECKING:
    from accord.models import Budget
    from accord.project import Fitted
    from accord.validation import CalledRow


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Print the requests, tokens and cost of a block on stderr, also after an error."""
    try:
        yield
    finally:
        spent = budget.to_json()
        if spent["requests"]:
            say(f"spent: {spent_text(spent)}", is_aside=True)


def training_text(scored: Mapping[str, Any]) -> list[str]:
    """Return sentences on scores of rated turns and of conversations in the training data."""
    lines, rated, of_all = [], scored["rated"], scored["scored"] + sum(scored["unscored"].values())
    if scored["level"] in ("turn", "step") and 0 < rated < of_all:
        lines.append(f"{rated} of {of_all} scored {scored['level']}s have ratings (column `rated`)")
    if known := scored["in_training"]:
        lines.append(
            f"{known} of {count_of(scored['conversations'], 'scored conversation')} "
            f"{'was used in training; its' if known == 1 else 'were used in training; their'} scores are closer to the "
            "ratings than those of new ones will be (column `in_training`)"
        )
    return lines


def verdict_text(verdict: Mapping[str, Any]) -> str:
    """Format a verdict: its sentence, the uses of the scores, and what to do next."""
    from accord.decisions import uses_table
    from accord.results import Section, section_text

    uses = section_text(Section("", "", [uses_table(verdict["uses"])]))
    actions = [f"  {place}. {each['text']}: {each['command']}" for place, each in enumerate(verdict["actions"], 1)]
    return "\n".join([f"{verdict['title']}: {verdict['sentence']}", "", uses, "", "Next:", *actions])


def plan_text(plan: Mapping[str, Any]) -> str:
    """Format a plan: samples, questions, requests and their cost."""
    about = f"{count_of(plan['samples'], 'sample')}, " if plan["samples"] else ""
    known = f"{count_of(plan['questions'], 'question')}, {plan['answered']} already answered"
    return f"{about}{known}\n{cost_text(plan)}"


def cost_text(plan: Mapping[str, Any]) -> str:
    """Format the cost of a plan: range of requests, tokens, money."""
    fewest, most = plan["min_requests"], plan["max_requests"]
    requests = count_of(plan["requests"], "request")
    if most > fewest:
        requests = f"{fewest} to {most} requests; {plan['requests']} expected"
    lines = [f"{requests}, about {plan['input_tokens']} tokens in, at most {plan['output_tokens']} out"]
    if most > plan["requests"]:
        lines.append("a reply that cannot be used leads to further requests")
    if plan["attempts"] > 1 and most:
        lines.append(f"a request that fails is sent up to {plan['attempts']} times; each time counts")
    if plan["unpriced"]:
        lines.append(f"price of {plan['unpriced']!r} unknown; add it to prices.yaml to see it in money")
    elif plan["money"] is not None:
        upper = f", at most {plan['max_money']:.4f}" if most > plan["requests"] else ""
        lines.append(f"about {plan['money']:.4f}{upper} in money")
    return "\n".join(lines)


def spent_text(spent: Mapping[str, Any]) -> str:
    """Format the spent requests, tokens and money."""
    money = "" if spent["money"] is None else f", {spent['money']:.4f} in money"

    return f"{count_of(spent['requests'], 'request')}, {spent['input_tokens']} + {spent['output_tokens']} tokens{money}"


def comparison_text(result: Mapping[str, Any]) -> str:
    """Format a comparison: statistics of each evaluator with intervals."""
    from accord.results import agreement_words, counts
    from accord.values import Estimate

    lines = [*result["rows"], *([result["people"]] if result["people"] else [])]
    count = counts(result["conversations"], result["ratings"], result["annotators"])
    about = (
        f"{result['question_name']}: {count} (agreement of people: {agreement_words(Estimate(result['alpha']))}); "
        f"{_folds(result)}, seed {result['seed']}; 95% intervals"
    )
    if result["seen"]:
        about += f"\n{result['seen']} conversations from which the rubric was learned are used for training only"
    table = "\n".join([rows_text(lines), *(["", *result["choices"]] if result["choices"] else [])])
    remarks = "\n".join([*_band_lines(lines), *result["remarks"]])
    parts = [f"{about}\n\n{table}", within_text(lines), two_valued_text(lines), remarks]
    return "\n\n".join(part for part in parts if part)


def _band_lines(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on the bands of the first evaluator with some: share of ratings inside, and mean width."""
    first = next((line for line in lines if line.get("coverage_new_annotator") is not None), None)
    if first is None:
        return []
    return [
        f"Bands of {first['evaluator']} for a new annotator: {_cell(first, 'coverage_new_annotator')} of the ratings "
        f"are inside; mean width {_cell(first, 'width_new_annotator')} units of the scale"
    ]


_BY = {"annotators": "annotators", "systems": "assistant versions"}


def within_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format agreement within annotators and within assistant versions; empty if there is one of each."""
    there = [by for by in _BY if any(f"groups_within_{by}" in line for line in lines)]
    if not there:
        return ""
    header = ["evaluator", *(f"{sign} within {_BY[by]}" for by in there for sign in ("r", "τ"))]
    rows = [
        [line["evaluator"], *(_cell(line, f"{name}_within_{by}") for by in there for name in ("pearson", "kendall"))]
        for line in lines
    ]
    within = " and within ".join(_BY[by] for by in there)
    text = f"Pooled r also reflects differences between annotators; r within {within} does not"
    return f"{text}\n\n{table(header, rows)}"


def two_valued_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format κ, TPR and TNR for a scale of two options; empty for other scales."""
    if not lines or "tpr" not in lines[0]:
        return ""
    rows = [[line["evaluator"], *(_cell(line, name) for name in ("kappa", "tpr", "tnr"))] for line in lines]
    rate = figure_text(lines[0]["base_rate"], lines[0]["base_rate_low"], lines[0]["base_rate_high"], 3)
    return f"Two options; {rate} of the ratings are the upper one\n\n{table(['evaluator', 'κ', 'TPR', 'TNR'], rows)}"


def _folds(result: Mapping[str, Any]) -> str:
    groups = result["groups"]
    kept = groups["said"] if groups else "whole conversations"
    return f"{result['folds']} folds of {kept}" if result["folds"] > 1 else f"one side held out, {kept}"


def rows_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format a row per evaluator, and the reasons for ratings without a score."""
    from accord.evidence import comparison_table

    return "\n".join([table(*comparison_table(lines)), *_notes(lines)])


def _cell(line: Mapping[str, Any], name: str) -> str:
    from accord.evidence import statistic

    return statistic(line, name)


def groups_text(groups: Iterable[Mapping[str, Any]]) -> str:
    """Format agreement by group: errors of the predictions in each group, compared with all other groups."""
    names = {"bias": "bias", "rmse": "RMSE", "pearson": "r", "calibration_error": "smECE"}
    rows = [
        [
            f"{g['by']}: {g['group']}",
            str(g["n"]),
            *(_cell(g, name) for name in names),
            f"{g['apart']:+.2f}",
            f"{g['p_holm']:.3f}",
        ]
        for g in groups
    ]
    return table(["group", "n", *names.values(), "apart", "p"], rows)


def _notes(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    notes = [
        f"{line['evaluator']}: {line['unscored']} unscored ({_reasons(line['reasons'])})"
        for line in lines
        if line["unscored"]
    ]
    return ["", *notes] if notes else []


def _reasons(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "no other annotator rated the same"


# --- fitted evaluators -----------------------------------------------------------------------------------------------

_OF_LABELS = {
    "called": "called",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "alpha": "α",
    "calibration_error": "smECE",
}


def fitted_text(done: Fitted) -> str:
    """Everything that one `accord fit` found out."""
    from accord.results import section_text

    parts = [comparison_text(one_line_json(done.comparison.to_json()))] if done.comparison is not None else []
    if done.learned_from and not done.cautions:
        parts.append(
            f"learned from the evidence of {count_of(done.learned_from, 'sample')} without ratings, so the agreement "
            "with people is unknown"
        )
    if done.questions:
        parts.append(_questions(done))
    if done.labels:
        parts.append(_labels(done.labels))
    parts += [section_text(found.section()) for found in done.findings.values()]
    if done.evaluator.is_fitted:
        parts += done.evaluator.head.remarks()
    return "\n\n".join([*parts, f"saved in {done.folder}"])


def _questions(done: Fitted) -> str:
    """Format out-of-fold agreement for each question of the rubric."""
    rows = one_line_json(done.by_question())
    figures = {"rmse": "RMSE", "pearson": "r", "log_loss": "log loss"}
    cells = [
        [row["question_name"], str(row["n"]), *(
            figure_text(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")) for name in figures
        )]
        for row in rows
    ]  # fmt: skip
    about = "Each question, on held-out conversations; 95% intervals"
    return f"{about}\n\n{table(['question', 'ratings', *figures.values()], cells)}"


def _labels(rows: Sequence[CalledRow]) -> str:
    from accord.validation import no_better_than_chance

    about = "Issue labels, on held-out conversations; 95% intervals"
    shown = f"{about}\n\n{table(['issue', 'labels', *_OF_LABELS.values()], map(_cells, rows))}"
    unknown = no_better_than_chance(rows)
    if not unknown:
        return shown
    kinds = ", ".join(unknown)
    return (
        f"{shown}\n\n{kinds}: agreement with annotators is not above chance (α may be 0); do not rely on these labels"
    )


def _cells(row: CalledRow) -> list[str]:
    found = row.to_json()
    figures = [figure_text(found.get(name), found.get(f"{name}_low"), found.get(f"{name}_high")) for name in _OF_LABELS]
    return [f"{row.issue}: {row.system}", str(found.get("marks", "")), *figures]
