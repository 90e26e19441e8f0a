"""A judge of your own behind the same seam: here a function, in earnest a call to whatever you have.

Run: python examples/judge_with_a_script.py
"""

from accord import Labels, Store, compare, load_rubric, read, read_labels
from accord.evidence import judge_samples
from accord.evidence import tokens as words
from accord.models import ScriptedJudge
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


chats, ratings = sources()
rubric = load_rubric("llm-rubric")
samples = [Sample(record.conversation) for record in read(chats)]
labels = Labels(read_labels(ratings, rubric))
evidence = judge_samples(ScriptedJudge(by_length, name="by-length"), rubric, samples, Store("sqlite:///:memory:"))
for result in compare(evidence, labels, rubric.main_question, draws=200).results:
    print(f"{result.system:16} RMSE {result.values['rmse']:.3f}")
