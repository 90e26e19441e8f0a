"""The model layer: two seams (`ChatModel.ask`, `Judge.answer`), their implementations, and the flow driver."""

from accord.llm.flow import Flow, as_finished, drive, run_flow
from accord.llm.model import (
    Answer,
    CallFailed,
    ChatModel,
    Failure,
    Judge,
    Message,
    Prompt,
    Reply,
    Subject,
    Unanswered,
    Usage,
)
from accord.llm.recorded import RecordedJudge
from accord.llm.scripted import ScriptedJudge, ScriptedModel

__all__ = [
    "Answer",
    "CallFailed",
    "ChatModel",
    "Failure",
    "Flow",
    "Judge",
    "Message",
    "Prompt",
    "RecordedJudge",
    "Reply",
    "ScriptedJudge",
    "ScriptedModel",
    "Subject",
    "Unanswered",
    "Usage",
    "as_finished",
    "drive",
    "run_flow",
]
