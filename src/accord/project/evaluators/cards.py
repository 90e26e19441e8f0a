"""Agreement cards of evaluators: figures of the saved evaluator on held-out ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.decisions import AGREE, AgreementCard, Figures, Verdict, check_makers, labels_digest, write_card
from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning import Evaluator, HeldOutAnswers
from accord.project.evaluators.comparing import by_groups
from accord.project.evaluators.diagnostics import SYSTEM
from accord.project.evaluators.fitting import fit_offline
from accord.project.evaluators.held_out_set import tested_on
from accord.project.results import Compared, Fitted
from accord.scoring import asked_in
from accord.store import Store
from accord.validation import COVERAGE_NEW, NEW, WIDTH_NEW, Comparison
from accord.values import Question, Rubric
from accord.version import __version__

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

Row = dict[str, Any]
"""Part of a card, which the model of the card validates."""
CARD = "card"
"""Command under which the use of ratings for a card is recorded."""
_TESTING = ("compare", "fit", "run", CARD)
"""Commands that test evaluators on the ratings of the store."""


@dataclass(frozen=True)
class CardOptions:
    """Options of a card.

    Attributes:
        held_out: Files of conversations and ratings that the evaluator has never seen. By default, the figures
            come from the cross-validation.
        made_by: `people` or `models`; ratings by models are refused unless it is `models`.
        by: Metadata entries to audit by, besides the assistant version.
    """

    held_out: Sequence[Any] = ()
    made_by: str = "people"
    by: Sequence[str] = ()


def card_of(project: Workspace, name: str | None = None, options: CardOptions | None = None) -> AgreementCard:
    """Measure a saved evaluator and return its agreement card; the use of the ratings is recorded in the store.

    Args:
        project: Workspace with the evaluator and the ratings.
        name: Folder of the evaluator inside `evaluators`; by default the one in use.
        options: Held-out files, maker of the ratings, and groups.

    Raises:
        BadInput: The evaluator does not exist, its ratings were changed since it was fitted, or they look like ratings
            by models and nothing declares it.
    """
    options = options or CardOptions()
    evaluator = project.load(project.folder(name))
    with project.store.run(CARD, asked_in(evaluator.question, project.config.shown())) as record:
        if options.held_out:
            found, fitted = tested_on(project, evaluator, options.held_out), None
        else:
            fitted = _same_fit(project, evaluator)
            assert fitted.held_out is not None  # checked by `_same_fit`
            found = fitted.held_out
        test = _test(project.store, found, bool(options.held_out))
        card = _card(project, evaluator, found, test, options, fitted)
        record.results.update({"ratings": test["digest"], "card": card.digest, "evaluator": evaluator.digest()})
    return card


def remake_card(project: Workspace, path: str | Path) -> AgreementCard:
    """Make the card in a file again, for the evaluator as it is now, with the same options.

    Raises:
        BadInput: The card was made on a held-out set, whose files it does not name, or as in `card_of`.
    """
    old = AgreementCard.read(path)
    if old.test.method == "held-out set":
        raise BadInput(f"{path} was made on a held-out set; make it again: accord card --out {path} --held-out FILE")
    by = dict.fromkeys(group.by for group in old.groups if group.by != SYSTEM)
    made = card_of(project, old.subject.name, CardOptions(made_by=old.labels.made_by, by=list(by)))
    write_card(made, path)
    return made


def _same_fit(project: Workspace, evaluator: Evaluator) -> Fitted:
    """Fit the evaluator again from stored answers, and check that the result is the saved one.

    Raises:
        BadInput: Ratings or evidence were changed since it was saved, or it has no held-out ratings.
    """
    fitted = fit_offline(project, evaluator.name, bool(evaluator.other_questions))
    if fitted.held_out is None or evaluator.held_out is None:
        raise BadInput(
            f"{evaluator.name} was fitted without held-out ratings, so its agreement with people is unknown; import "
            "ratings, then fit it again: accord fit"
        )
    if not _is_same(evaluator.held_out, fitted.evaluator.held_out):
        raise BadInput(
            f"the ratings or the evidence of {evaluator.name} were changed since it was fitted, so a card would not be "
            "about the saved evaluator; fit it again: accord fit"
        )
    return fitted


def _is_same(saved: HeldOutAnswers, now: HeldOutAnswers | None) -> bool:
    if now is None:
        return False
    pairs = [(array, now.arrays()[name]) for name, array in saved.arrays().items()]
    return all(one.shape == other.shape and np.allclose(one, other, atol=1e-6) for one, other in pairs)


def _test(store: Store, found: Compared, is_set: bool) -> Row:
    """Return how the evaluator was kept from the ratings, and how often these ratings tested an evaluator before."""
    comparison = found.comparison
    digest = labels_digest(comparison.ratings.labels)
    done = [run for run in store.runs(*((CARD,) if is_set else _TESTING)) if run["status"] == "done"]
    earlier = [run for run in done if not is_set or (run["results"] or {}).get("ratings") == digest]
    first = min((str(run["started"])[:10] for run in earlier), default=date.today().isoformat())
    method: Any = "held-out set" if is_set else "cross-validation" if comparison.folds > 1 else "split"
    repeats = 1 + max(map(len, comparison.others.values()), default=0)
    return dict(
        method=method, folds=comparison.folds, repeats=repeats, digest=digest, uses=len(earlier) + 1, first_used=first
    )  # fmt: skip


def _card(
    project: Workspace,
    evaluator: Evaluator,
    found: Compared,
    test: Row,
    options: CardOptions,
    fitted: Fitted | None,
) -> AgreementCard:
    comparison, verdict = found.comparison, found.verdict
    labels = _labels(found, options.made_by, evaluator, project)
    others = [each.held_out for each in (fitted.questions if fitted else ()) if each.held_out is not None]
    agreement = [_agreement(each, project.rubric) for each in (found, *others)]
    row = comparison.results[0].estimates
    coverage = float(getattr(evaluator.head, "coverage", 0.9))
    bands = dict(promised=coverage, coverage=row[COVERAGE_NEW].to_json(), width=row[WIDTH_NEW].to_json())
    groups = by_groups(found, [SYSTEM, *options.by])
    return AgreementCard.sealed(
        dict(
            made=date.today().isoformat(),
            accord_version=__version__,
            project=project.config.folder.absolute().name,
            subject=_subject(evaluator, found.evidence),
            question=_question(comparison.question, project.rubric),
            labels=labels,
            test=test,
            title=verdict.title,
            state=verdict.state,
            sentence=verdict.sentence[:1].upper() + verdict.sentence[1:],
            agreement=agreement,
            baselines=_baselines(comparison, verdict),
            bands=None if row[COVERAGE_NEW].value is None else bands,
            decided=verdict.figures.decided,
            decided_agreement=None if verdict.figures.decided is None else AGREE,
            groups=[
                dict(by=each.by, group=each.name, labels=each.n, bias=each.bias.to_json(), p=each.p_holm)
                for each in groups
            ],
            rules=[
                dict(state=rule.state, name=rule.name, value=rule.value, limit=rule.limit, is_met=rule.is_met)
                for rule in verdict.checks
            ],
            limits=_limits(labels, test, fitted),
        )
    )


def _subject(evaluator: Evaluator, table: EvidenceTable) -> Row:
    models = {
        role: model.model or ", ".join(Path(path).name for path in model.paths)
        for role, model in evaluator.models.items()
    }
    return {
        "kind": "evaluator",
        "name": evaluator.name,
        "digest": evaluator.digest(),
        "models": models,
        "evidence": sorted({column.maker for column in table.columns}),
    }


def _question(question: Question, rubric: Rubric) -> Row:
    present = rubric.get(question.id) or question
    return dict(id=question.id, name=present.shown, text=question.text, scale=question.scale.range,
                rubric=rubric.name, rubric_hash=rubric.hash)  # fmt: skip


def _labels(found: Compared, made_by: str, evaluator: Evaluator, project: Workspace) -> Row:
    """Return the provenance of the ratings.

    Raises:
        BadInput: An annotator has the name of a model, and the ratings were not declared as made by models.
    """
    rated = found.comparison.ratings
    counts = Counter(map(str, rated.annotator))
    check_makers(counts, made_by)
    named = {sample.conversation.id: sample.conversation.shown_system for sample in found.train.samples}
    conversations = set(rated.conversation)
    systems = Counter(named.get(str(name)) or "unknown" for name in conversations)
    return dict(
        made_by=made_by, count=len(rated), conversations=len(conversations),
        annotators=sorted(counts.values(), reverse=True), systems=dict(sorted(systems.items())),
        languages=list(evaluator.languages), synthetic=found.comparison.synthetic, digest=labels_digest(rated.labels),
    )  # fmt: skip


def _agreement(found: Compared, rubric: Rubric) -> Row:
    comparison, figures = found.comparison, found.verdict.figures
    row, question = comparison.results[0], comparison.question
    return dict(
        question=question.id,
        name=(rubric.get(question.id) or question).shown,
        labels=row.n,
        error=_figure(figures, "error"),
        within_one=_figure(figures, "within_one"),
        pooled=row.estimates["pearson"].to_json(),
        within_annotators=_figure(figures, "r") if figures.is_within else {},
        within_systems=_within(row.within.get("systems")),
        people=_figure(figures, "people_error"),
        people_within=_figure(figures, "people_r"),
        alpha=_figure(figures, "alpha"),
    )


def _figure(figures: Figures, name: str) -> Row:
    """Return the value and the interval of a figure of the verdict's ledger; empty without it."""
    return figures.ledger[name].estimate.to_json() if name in figures.ledger else {}


def _within(found: Any) -> Row:
    return {} if found is None else found.pearson.to_json()


def _baselines(comparison: Comparison, verdict: Verdict) -> list[Row]:
    tests = verdict.figures.tests
    return [
        dict(
            name=row.evaluator,
            error=(row.estimates[NEW] if row.estimates[NEW].value is not None else row.estimates["rmse"]).to_json(),
            p=None if row.evaluator not in tests else tests[row.evaluator].p,
        )
        for row in comparison.results[1:]
    ]


def _limits(labels: Row, test: Row, fitted: Fitted | None) -> list[str]:
    """Return sentences about the limits of the figures."""
    limits = []
    if labels["made_by"] == "models":
        limits.append("The ratings were made by models: the card says nothing about agreement with people")
    if len(labels["annotators"]) == 1:
        limits.append("All ratings are by a single annotator")
    if labels["languages"]:
        limits.append(f"Learned from texts in {', '.join(labels['languages'])}; other languages are untested")
    if labels["synthetic"]:
        limits.append(f"{labels['synthetic']:,} of {labels['conversations']:,} rated conversations are synthetic")
    if test["method"] == "held-out set" and test["uses"] > 1:
        limits.append(
            f"The held-out set was used {test['uses']} times, first on {test['first_used']}; a choice made after "
            "seeing its results makes later figures too good"
        )
    return [*limits, *(fitted.cautions if fitted else ())]


def present_card(project: Workspace, card: AgreementCard) -> AgreementCard:
    """Return the card with the identity of the present evaluator, rubric, models and ratings."""
    evaluator = project.load(project.folder())
    question = project.rubric.get(evaluator.question.id) or evaluator.question
    train, _ = project.training(evaluator)
    table = project.measure(evaluator.sources, train.samples)
    rated = train.labels.on(evaluator.question.id)
    labels = card.labels.model_dump()
    if card.test.method != "held-out set":
        labels |= {"digest": labels_digest(rated), "count": len(rated)}
    now = {"subject": _subject(evaluator, table), "question": _question(question, project.rubric), "labels": labels}
    return AgreementCard.model_validate(card.signed() | now)
