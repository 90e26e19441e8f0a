"""DeepEval's metric of decision models, asked about a conversation; prints one line of JSON."""

import json
import os
import sys

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
from deepeval.metrics import ConversationalJevEval
from deepeval.metrics.jev_eval.questions import Noul, Score
from deepeval.models.system_one.typesafe_model import TypeSafeModel
from deepeval.test_case import ConversationalTestCase, MultiTurnParams, Turn


def main():
    url, token = sys.argv[1:]
    model = TypeSafeModel(model="accord", api_key=token, base_url=url)
    chat = ConversationalTestCase(turns=[
        Turn(role="user", content="Can I return an opened router?"),
        Turn(role="assistant", content="Yes, within 45 days of delivery."),
    ])  # fmt: skip

    def measured(*questions):
        metric = ConversationalJevEval("useful", [MultiTurnParams.CONTENT], questions, system_one_model=model)
        return metric.measure(chat, _show_indicator=False), metric.score_breakdown

    value, [row] = measured(Score("Is it useful?", levels=["1: of no use", "2", "3", "4: very useful"]))
    try:
        measured(Noul("Is it polite?"))
        refused = False
    except Exception as error:
        refused = "does not predict" in str(error)
    mass = list(row["probabilities"].values())
    print(json.dumps({
        "value": value, "probabilities": mass, "refused": refused,
        "value_of_probabilities": sum(place * p for place, p in enumerate(mass)) / 3,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
