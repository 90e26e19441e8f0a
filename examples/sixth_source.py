"""A sixth source of evidence, whole in one file, that needs no key to be tried: python examples/sixth_source.py."""

import os
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np

from accord import Project, sample
from accord.evidence import Column, LearnedEvidence, Source, SourceState, ask_rubric, ratings, sources
from accord.models import SCORER
from accord.project import config_from
from accord.testing import ChatServer, completion
from accord.values import Question, Rubric, Scale

POLITE = Question(id="politeness", text="How polite is the assistant?", scale=Scale(options=(1, 2, 3, 4, 5)))
ASKED = Rubric(name="politeness", questions=(POLITE,), main=POLITE.id)


@sources.register("politeness")
class Politeness(Source):
    """Politeness by a model's answers, mapped to ratings by a line."""

    roles, line = (SCORER,), (1.0, 0.0)

    def learn(self, train):
        """Fit the line to all ratings; training rows use the line of the other groups."""
        raw = yield from self.measure(train.samples)
        placed = [np.polyval(_line(raw, train, train.group_of(t)), raw.values[i]) for i, t in enumerate(raw.targets)]
        own = type(self)(self.settings, self.context).restored(SourceState({"line": _line(raw, train)}))
        return LearnedEvidence(own, replace(raw, values=placed * raw.present))

    def measure(self, samples):
        """One column: the mean answer on the line; missing with its reason without an answer."""
        mean = (yield from ask_rubric(ASKED, samples, SCORER, "politeness asked")).expected()
        column = Column("politeness", mean.columns[0].signature)
        return replace(mean, columns=(column,), values=np.polyval(self.line, mean.values) * mean.present)

    def state(self):
        """The line."""
        return SourceState({"line": self.line})

    def restored(self, state):
        """Restore the line."""
        self.line = state.card["line"]
        return self


def _line(raw, train, without=None):
    """Slope and level by least squares: through the ratings of other groups, and one that the politest is the best."""
    rated = ratings(raw, train.labels, train.question)
    use = raw.present[rated.row, 0] & (rated.group != without)
    return np.polyfit([1, 5, *raw.values[rated.row[use], 0]], [*rated.options[[0, -1]], *rated.value[use]], 1).tolist()


def main():  # a server on this machine stands in for the model
    os.environ.setdefault("OPENAI_API_KEY", "none")
    polite = ChatServer(lambda asked: completion("", {"4" if "sorry" in str(asked) else "2": 1}))
    with TemporaryDirectory() as to, polite as model:
        scorer = {"model": "m", "mode": "logprobs", "base_url": model.url}
        mine = {"sources": ["politeness", "metrics"], "head": "mixed"}
        config = {"store": f"sqlite:///{to}/a.db", "models": {"scorer": scorer}, "evaluators": {"mine": mine}}
        with Project(config_from(config)) as project:
            project.import_(sample.sources())
            print(project.fit("mine", f"{to}/mine").comparison["mine"].values)
            print(project.score(sample.sources()[0], f"{to}/scores.jsonl", f"{to}/mine").to_json())


if __name__ == "__main__":
    main()
