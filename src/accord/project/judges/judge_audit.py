"""Audit the project's judge: changes of its answers under edits that should not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from accord.edges import BadInput, BudgetReached, ModelSetting
from accord.evidence import Readable
from accord.models import JUDGE, Judge, Plan, wait
from accord.store import Store
from accord.validation import Probe, ProbeResult, audit, audit_requests, injections, robustness_probes
from accord.values import Rubric, Sample, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

AUDIT = "audit"
REPEAT, INJECTION = "repeat", "injection: "
"""Name of the probe that asks again, and the beginning of the names of those with hostile transcripts."""
SMALL = 0.02
"""Share of the scale below which a change of the answers does not matter."""


@dataclass(frozen=True, repr=False)
class AuditRun(Readable):
    """Result of an audit: the judge and the findings."""

    judge: str
    mode: str
    conversations: int
    findings: Sequence[ProbeResult]
    spent: Mapping[str, Any]

    def summary(self) -> dict[str, Any]:
        """Return the judge and the number of conversations and findings."""
        counts = {"judge": self.judge, "mode": self.mode, "conversations": self.conversations}
        return {**counts, "findings": len(self.findings)}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return a flat row per finding."""
        return [finding.to_json() for finding in self.findings]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        findings = [finding.to_json() for finding in self.findings]
        return {**vars(self), "findings": findings, "conclusion": self.conclusion}

    @property
    def conclusion(self) -> str:
        """Sentences on the edits that change the judge's answers more than asking again does, and the next step."""
        noise = next((each.move for each in self.findings if each.probe == REPEAT), None)
        if noise is None or noise.value is None:
            return (
                "The judge gave no comparable answers, so the audit says nothing. Check it: accord models check judge"
            )
        most = noise.value if noise.high is None else noise.high
        injections, edits = self._by_kind()
        moved = [each for each in edits if (each.move.low or 0.0) > max(most, SMALL)]
        raised = [each for each in injections if (each.lift.low or 0.0) > SMALL]
        again = f"Asked again, its answers move by {noise.value:.1%} of the scale on average."
        if not moved and not raised:
            return (
                f"No edit changes the judge's answers clearly. {again} Whether they agree with people: accord compare"
            )
        said = []
        if moved:
            said.append(f"Its answers depend on what should not matter: {_listed(moved, 'move', 'move by')}.")
        if raised:
            said.append(
                f"Instructions inside a transcript raise its answers: {_listed(raised, 'lift', 'rise by')}. Do not "
                "rely on it where users gain from high scores."
            )
        advice = "Try another model or mode (accord models check judge), and audit it again"
        return f"{' '.join(said)} {again} {advice}"

    def _by_kind(self) -> tuple[list[ProbeResult], list[ProbeResult]]:
        """Return the findings on instructions inside a transcript, and those on edits that should not matter."""
        injections = [each for each in self.findings if each.probe.startswith(INJECTION)]
        return injections, [each for each in self.findings if each not in injections and each.probe != REPEAT]


def _listed(findings: Sequence[ProbeResult], figure: Literal["move", "lift"], verb: str) -> str:
    """Return the findings with the largest changes first, as words."""

    def size(finding: ProbeResult) -> float:
        return getattr(finding, figure).value or 0.0

    ordered = sorted(findings, key=size, reverse=True)
    return "; ".join(f"{each.probe.removeprefix(INJECTION)} ({verb} {size(each):.1%} of the scale)" for each in ordered)


def _probes(judge: Judge, rubric: Rubric) -> list[Probe]:
    """Return the edits: rephrased questions, and hostile transcripts on the main question."""
    return [*robustness_probes(judge, rubric), *injections(rubric.main_question)]


def _subject(project: Workspace, limit: int) -> tuple[Judge, list[Sample]]:
    if not project.models.has(JUDGE):
        setting = ModelSetting(JUDGE, model="NAME")
        raise BadInput(f"no judge to audit. {setting}", setting)
    samples = project.samples(map(Target, islice(project.store.conversation_ids(), limit)))
    return project.models.role(JUDGE).judge(project.rubric, keeps=False), samples


def plan_audit(project: Workspace, limit: int) -> Plan:
    """Plan the requests and the cost of `audit_judge` with the same arguments."""
    judge, samples = _subject(project, limit)
    plan = Plan(samples=len(samples))
    requests = audit_requests(judge, project.rubric, samples, _probes(judge, project.rubric))
    plan.add(JUDGE, judge.name, requests, project.models.role(JUDGE).options.attempts)
    plan.price(project.budget)
    return plan


def audit_judge(project: Workspace, limit: int) -> AuditRun:
    """Audit the judge on the store's first conversations, and store the findings as a run for the report.

    Raises:
        BadInput: The store has no conversation, or the project has no judge or a recorded one.
        ModelError: No request can succeed.
        BudgetReached: The audit would exceed the budget. No request was sent, because a partial audit is useless.
    """
    judge, samples = _subject(project, limit)
    _check_budget(plan_audit(project, limit), project)
    rubric, seed, context = project.rubric, project.config.seed, project.models.role(JUDGE).context
    settings = {"judge": judge.name, "mode": judge.mode, "rubric": rubric.hash, "limit": limit, "seed": seed}
    with project.store.run(AUDIT, settings) as record:
        findings = wait(audit(judge, rubric, samples, _probes(judge, rubric), seed, context))
        result = AuditRun(judge.name, judge.mode, len(samples), findings, project.budget.to_json())
        record.results.update(result.to_json())
    return result


def _check_budget(plan: Plan, project: Workspace) -> None:
    """Raise BudgetReached if the budget is too small for the whole audit."""
    tokens, caps = plan.input_tokens + plan.output_tokens, project.budget.caps
    needs: dict[str, tuple[float, float | None]] = {
        "requests": (plan.requests, caps.requests),
        "tokens": (tokens, caps.tokens),
        "money": (plan.money or 0.0, caps.money),
    }
    for unit, (amount, cap) in needs.items():
        if cap is not None and amount > cap:
            raise BudgetReached(
                f"the audit needs {amount:g} {unit}, the budget is {cap:g}; no request was sent. Lower --limit"
            )


def latest_audit(store: Store) -> dict[str, Any] | None:
    """Return the results of the last finished audit; `None` if there is none."""
    finished = [run for run in store.runs() if run["command"] == AUDIT and run["status"] == "done"]
    return dict(finished[-1]["results"]) if finished else None
