"""The two flows as data: what is asked at each stage, what every answer means, and what is shown beside it.

The words are those of SODA-EVAL's guidelines (figures 9 and 10), without the name of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accord.errors import UnknownName

DETECTION, OVERALL = "detection", "overall"
QUESTION = "validation:"
"""What the ids of the questions of validation begin with."""


@dataclass(frozen=True)
class Stage:
    """One question of a flow.

    Attributes:
        id: Its name within the flow.
        question: What is asked.
        meanings: Each allowed answer, with a word for it and what it means.
        shows_issues: Whether the issues that were found are shown. The score that was given never is.
        hint: What else to know while answering.
    """

    id: str
    question: str
    meanings: Mapping[int, tuple[str, str]]
    shows_issues: bool
    hint: str = ""

    @property
    def label(self) -> str:
        """The id of its question as labels have it."""
        return QUESTION + self.id


@dataclass(frozen=True)
class FlowOfStages:
    """Stages that each turn goes through, in this order.

    Attributes:
        name: What the flow is called.
        title: What it is about, for a page.
        guidelines: Paragraphs to read before the first turn.
        stages: At least one.
        lists_kinds: Whether the guidelines list the kinds of issues.
    """

    name: str
    title: str
    guidelines: tuple[str, ...]
    stages: tuple[Stage, ...]
    lists_kinds: bool


_QUALITY = {
    1: ("awful", "The response contains several major issues (e.g. contradicts itself or lacks common sense) that "
        "severely affect the interaction. The user would be hard pressed to continue such a conversation."),
    2: ("bad", "The response contains major issues that affect the conversation."),
    3: ("fair", "The response contains some issues that moderately reduce the quality of the interaction (e.g. "
        "unexpected or non-engaging response, or minor contradiction)."),
    4: ("good", "The response may contain a minor issue (e.g. a small typo) that does not affect its quality."),
    5: ("excellent", "Perfect response, without any issues."),
}  # fmt: skip

_CORRECT = {
    0: ("bad", "The issue identified is not present in the response; or no objective issue was detected when clearly "
        "at least one was present."),
    1: ("fair", "One objective issue was detected, but an additional one was missed; or the issue detected is present "
        "but not correctly described."),
    2: ("good", "The issues identified are present in the response; or there are indeed no issues."),
}  # fmt: skip

FLOWS: Mapping[str, FlowOfStages] = {
    DETECTION: FlowOfStages(
        DETECTION,
        "Are the issues right?",
        (
            "A model was asked to detect issues in dialogue responses. Your task is to determine if its detections "
            "are correct. There may be more than one issue per response.",
            "Only the objective issues are to be validated. The subjective ones are shown for completeness.",
        ),
        (Stage("detection", "Are the objective issues detected correct (or the lack of them)?", _CORRECT, True),),
        lists_kinds=True,
    ),
    OVERALL: FlowOfStages(
        OVERALL,
        "How good is the response?",
        (
            "Your task is to provide an overall assessment of the response (1 to 5), given the prior context.",
            "It is done in two steps. In the first you rate the response with the dialogue alone. After that, and "
            "only then, you rate the same response in the same way, with automated guidance: the issues a model found.",
            "You may disagree with the guidance, or find that it does not change your assessment; then give the same "
            "rating again. The first rating stays as it is.",
        ),
        (
            Stage("initial", "How good is the marked response, given what was said before it?", _QUALITY, False,
                  "Step 1 of 2: the dialogue alone. This rating cannot be changed afterwards."),
            Stage("revised", "How good is it, now that you have seen the issues a model found?", _QUALITY, True,
                  "Step 2 of 2: with guidance. You may disagree with it, and keep your first rating."),
        ),
        lists_kinds=False,
    ),
}  # fmt: skip


def flow_named(name: str) -> FlowOfStages:
    """The flow called so.

    Raises:
        UnknownName: There is none.
    """
    if name not in FLOWS:
        raise UnknownName("validation flow", name, FLOWS)
    return FLOWS[name]
