"""A custom judge: here a function, in practice a call to your own model.

Run: python examples/judge_with_a_script.py
"""

from accord import Project
from accord.evidence.bank.words import tokens as words
from accord.models import ScriptedJudge
from accord.project import Config
from accord.sample import sources
from accord.values import Question, Sample


def by_length(sample: Sample, question: Question) -> dict[str, float]:
    """Prefer short replies: half the answers' mass moves with the number of words in them."""
    replies = sample.conversation.by("assistant")
    count = sum(len(words(turn.content)) for turn in replies) / max(len(replies), 1)
    options = [str(option) for option in question.scale.options]
    short = 1 / (1 + count / 40)
    rest = (1 - short) / (len(options) - 1)
    return {option: short if option == options[-1] else rest for option in options}


config = Config(store="sqlite:///:memory:", metrics=[], draws=200)
with Project(config, given={"judge": ScriptedJudge(by_length, name="by-length")}) as project:
    project.import_(sources())
    project.judge()
    for result in project.compare(only=["default"]).comparison.results:
        print(f"{result.evaluator:16} RMSE {result.values['rmse']:.3f}")
