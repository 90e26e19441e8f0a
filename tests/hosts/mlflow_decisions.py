"""MLflow's judges by decision models, in both dialects, asked about a reply; prints one line of JSON."""

import json
import os
import sys
from typing import Literal


def main():
    url, token = sys.argv[1:]
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", TYPESAFE_API_KEY=token, OPENAI_API_KEY=token)
    from mlflow.genai.judges import make_judge  # noqa: E402 - reads the environment

    TURN = {"inputs": "Can I return an opened router?", "outputs": "Yes, within 45 days of delivery."}

    def judge(wording, kind, model):
        text = wording + "\n{{ inputs }}\n{{ outputs }}"
        return make_judge(
            name="judge", instructions=text, model=model, model_api="decisions", feedback_value_type=kind,
            base_url=url + "/v1",
        )(**TURN)  # fmt: skip

    options = Literal["1", "2", "3", "4"]
    native = judge("Is it useful?", options, "typesafe:/accord")
    openai = judge("Is it useful?", options, "openai:/accord")
    mass = json.loads(native.metadata["typesafe.probabilities"])
    rows = json.loads(openai.metadata["openai.decisions.probabilities"])
    assert {row["value"]: row["probability"] for row in rows} == mass, (rows, mass)
    assert native.value == openai.value
    try:
        judge("Is it polite?", bool, "typesafe:/accord")
        refused = False
    except Exception as error:
        refused = "HTTP 422" in str(error)
    print(json.dumps({
        "value": float(native.value), "probabilities": [mass[option] for option in "1234"], "refused": refused,
        "value_of_probabilities": float(max(mass, key=mass.get)),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
