"""Next steps of a lead on the home page: each a sentence with its reason, and a button or a page that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accord.edges import count_of
from accord.learning import CARD, REFIT_NEEDED
from accord.project import refit_note
from accord.store import Store

PAGES = {
    "accord estimate": ("/board", "Compare versions"),
    "accord label next": ("/studies/new", "Make a study"),
    "accord serve": ("/studies/new", "Make a study"),
    "accord score": ("/import", "Import conversations"),
    "accord watch": ("/board", "Open the board"),
}
"""Page of the workbench that replaces a command, with the text of its button, by the first words of the command."""
REASONS = {
    "accord estimate": "Means over many conversations are safe to compare.",
    "accord label next": "The evaluator learns most from ratings of these.",
    "accord serve": "People understand the question in different ways.",
    "accord score": "Their scores show how the assistant does now.",
    "accord watch": "The board shows changes of the scores over time.",
    "accord gate": "The command fails if the scores are unproven, or agree less with people.",
    "accord judge": "Features of the content can lower the typical error.",
    "accord compare": "The comparison shows the evaluator with the smallest error.",
}
"""Reason for an action of the verdict, by the first words of its command."""
MAX_STEPS = 4
"""Number of next steps on the page."""
MAX_NAMES = 5
"""Number of people that a step names."""
Step = dict[str, Any]
Values = Mapping[str, Any]


def next_steps(studies: Sequence[Values], evaluator: Values, counts: Values, new_scores: int | None) -> list[Step]:
    """Return what to do next, the most urgent first.

    Args:
        studies: Studies of the lead, with their progress.
        evaluator: Evaluator in use, candidate and running work.
        counts: Numbers of conversations and ratings.
        new_scores: Number of scored conversations that the evaluator did not learn from; `None` if none is scored.
    """
    steps = [*_of_evaluator(evaluator, counts), *(step for study in studies for step in _of_study(study))]
    if not studies and not counts["ratings"]:
        steps.append(step_of("Let people rate conversations", "An evaluator learns from their ratings.",
                           "/studies/new", "Create a study"))  # fmt: skip
    if evaluator["name"] and new_scores is None and not evaluator["scoring"]:
        steps.append(step_of("Score the conversations", "No conversation has a score yet.", "/lead/score", "Score all",
                           method="post"))  # fmt: skip
    return [*steps, *_of_verdict(evaluator, steps, new_scores)][:MAX_STEPS]


def refit_text(store: Store, folder: Path) -> str:
    """Return a clause on an evaluator that has to be fitted again after an erasure; empty if it has not."""
    if (folder / REFIT_NEEDED).is_file() and not (folder / CARD).is_file():
        return f"{folder.name} held texts of conversations that were erased, so it was removed"
    return refit_note(store, folder).partition(";")[0]


def step_of(text: str, reason: str, address: str, button: str, method: str = "get", **more: Any) -> Step:
    """Return a step: its text, the reason, the page or form that does it, and the text of its button."""
    return {"text": text, "reason": reason, "address": address, "button": button, "method": method, "reminder": "",
            "command": "", "is_dispute": False, **more}  # fmt: skip


def _of_evaluator(evaluator: Values, counts: Values) -> Iterator[Step]:
    """Yield the steps about the candidate, a first fit and new ratings."""
    learned, new = counts["learned"], counts["new"]
    if evaluator["candidate"]:
        button = "Compare and promote" if evaluator["name"] else "Promote"
        yield step_of("Check the candidate", evaluator["candidate"], "/evaluators#next", button)
    if evaluator["refit"] and not evaluator["fitting"]:
        place = ("/lead/fit", "Fit again") if counts["ratings"] else ("/studies/new", "Create a study")
        yield step_of("Fit again without what was erased", f"{evaluator['refit']}.", *place,
                    method="post" if counts["ratings"] else "get")  # fmt: skip
        return
    if evaluator["fitting"] or not counts["ratings"] or evaluator["is_candidate_current"]:
        return
    if evaluator["name"] is None:
        if not evaluator["candidate"]:
            text = f"Fit an evaluator to {_ratings(counts['ratings'])}"
            yield step_of(
                text, "It learns to score as these people do.", "/lead/fit", "Fit an evaluator", method="post"
            )
    elif new:
        people = f"; {evaluator['new_agreement']}" if evaluator["new_agreement"] else ""
        reason = (
            f"The evaluator learned {learned:,} of {counts['ratings']:,}{people}{_duration(evaluator['fit_seconds'])}."
        )
        yield step_of(f"Fit again with {new:,} new rating{'' if new == 1 else 's'}", reason, "/lead/fit", "Fit again",
                    method="post")  # fmt: skip


def _ratings(count: int) -> str:
    return f"{count:,} rating{'' if count == 1 else 's'}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    whole = max(round(seconds), 1)
    return f"; a fit takes about {count_of(whole, 'second') if whole < 90 else count_of(round(whole / 60), 'minute')}"


def _of_study(study: Values) -> Iterator[Step]:
    """Yield the steps about a study: check its wording, add people, remind them, discuss disputed items."""
    title, page = study["title"], f"/lead/{quote(study['study'])}"
    if study["problem"]:
        return
    if study["closed"]:
        yield step_of("Check the wording so that a study opens", title, f"{page}#wording", "Check the wording")
        return
    left = 0 if study["is_chat"] else max(study["items"] - study["full"], 0)
    if left and not study["people"]:
        yield step_of("Add people who rate", f"{title} · nobody takes part yet; you can rate it yourself", "/people",
                    "Add people")  # fmt: skip
    elif left:
        text = f"{left:,} item{' still needs' if left == 1 else 's still need'} a rating"
        waiting = study["waiting"]
        reason = f"{title} · {f'waiting for {_names(waiting)}' if waiting else 'everybody has rated their part'}"
        yield step_of(text, reason, page, "Open the study", reminder=study["reminder"] if waiting else "")
    disputed, decided = study["disputed"], study["adjudicated"]
    if disputed > decided:
        text = f"People disagree on {disputed:,} item{'' if disputed == 1 else 's'}"
        reason = f"{title} · {decided:,} of {disputed:,} adjudicated"
        yield step_of(text, reason, f"{page}/disagree", "Discuss them", is_dispute=True)


def _names(names: Sequence[str]) -> str:
    """Return a list of names in words."""
    shown = list(names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _of_verdict(evaluator: Values, steps: Sequence[Step], new_scores: int | None) -> Iterator[Step]:
    """Yield the actions of the verdict that the page does not offer elsewhere, those that need a terminal last."""
    verdict = evaluator["verdict"] or {}
    known = {step["address"] for step in steps} | {main_button(verdict, new_scores)[0]}
    known |= set() if new_scores else {"/board"}  # there is nothing to compare yet
    commands = []
    for action in verdict.get("actions", ()):
        command = action["command"]
        page = next((page for start, page in PAGES.items() if command.startswith(start)), None)
        reason = next((reason for start, reason in REASONS.items() if command.startswith(start)), "")
        if page is None:
            commands.append(step_of(action["text"], reason, "", "", command=command))
        elif page[0] not in known:
            known.add(page[0])
            yield step_of(action["text"], reason, *page)
    yield from commands


def main_button(verdict: Values, new_scores: int | None) -> tuple[str, str]:
    """Return the page that a verdict permits, with the text of its button.

    Versions are compared, and the worst conversations read, by scores of new conversations.
    """
    state = verdict.get("state")
    if state in ("systems", "single", "triage") and not new_scores:
        return "/import", "Import new conversations"
    if state in ("systems", "single"):
        return "/board", "Compare versions"
    if state == "triage":
        return "/board/list", "Read the worst"
    return "/studies/new", "Make a study"


def reminder(study: Values, site: str) -> str:
    """Return a text that asks people to rate the items that are left."""
    return (
        f"Please rate the next conversations of “{study['title']}”: {site.rstrip('/')}{study['address']} "
        "(sign in with your personal link first)."
    )
