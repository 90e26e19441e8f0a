"""Words in the names of columns: one vocabulary for all readers of tables."""

from __future__ import annotations

from collections.abc import Mapping

from accord.formats.record import ANNOTATOR_KEYS, FILE_NAMES, FOREIGN_CONVERSATIONS, FOREIGN_IDS

OTHER_WORDS = {
    "id", "ids", "index", "idx", "turn", "turns", "count", "num", "number", "length", "len", "tokens", "token", "words",
    "chars", "age", "year", "month", "day", "hour", "date", "time", "timestamp", "duration", "latency", "seconds",
    "minutes", "ms", "version", "temperature", "seed", "model", "system", "bot", "user", "topic", "domain", "language",
    "lang", "locale", "country", "gender", "channel", "source", "dataset", "split", "fold", "batch", "run", "cost",
    "price", "url", "comment", "comments", "reason", "explanation", "name", "email", "session", "trace", "title",
    "items", "level", "order", "rank", "position", "category", "type", "status", "n", "k", "p", "confidence",
}  # fmt: skip
"""Words of columns that hold something other than ratings."""
NOT_VALUES = OTHER_WORDS - {"model", "run", "level", "user"}
"""Words of columns that hold neither ratings of people nor answers of a judge: `user_rating` and `model_score` do."""

FAMILIES = {
    "gpt", "chatgpt", "openai", "claude", "anthropic", "gemini", "gemma", "llama", "mistral", "mixtral", "qwen",
    "deepseek", "grok", "llm", "llms", "prometheus",
}  # fmt: skip
"""Words in the names of models."""
JUDGES = {
    *FAMILIES, "judge", "judges", "judged", "predicted", "prediction", "predictions", "pred", "preds", "auto",
    "automatic", "automated", "autorater", "autograder", "autoscore", "autorating",
}  # fmt: skip
"""Words of columns with the answers of a model that judges."""
PERHAPS_MODEL = {"model", "models", "ai", "machine"}
"""Words of columns with the answers of a judge, or with something about the model that is judged."""
PERHAPS_JUDGE = {"grader", "evaluator", "verdict", "score", "scores", "rating", "result", "grade", "passed", "pass"}
"""Words of columns that hold a judge's answers if people have columns of their own."""
PEOPLE = {
    "human", "humans", "people", "person", "user", "customer", "client", "annotator", "annotators", "rater", "raters",
    "reviewer", "coder", "labeler", "labeller", "expert", "experts", "crowd", "worker", "manual", "sme", "nutzer",
    "kunde", "mensch", "teacher", "examiner", "assessor", "auditor", "inspector", "checker", "lehrer", "lehrerin",
    "prüfer", "prüferin", "expertin", "experte", "gutachter", "gutachterin", "bewerter", "bewerterin",
}  # fmt: skip
"""Words of columns with the answers of people."""
LABELS = {"gold", "golden", "truth", "label", "labels", "reviewed", "annotation", "annotated"}
"""Words of columns with labels, which people gave unless the name says otherwise."""
HUMAN = PEOPLE | LABELS
CONSENSUS = {"gold", "golden", "consensus", "majority", "final", "adjudicated", "mean", "average", "agreed"}
"""Words of columns that sum up the answers of several people."""
SCORES = {"score", "scores", "rating", "ratings", "label", "value", "grade", "result", "verdict"}
PLAIN = {*SCORES, "labels", "passed", "pass", "answer", "llm", "as", "a", "auto"}
"""Words that name no question."""
COMMENTS = {"rationale", "reasoning", "feedback", "text", "prompt", "reply", "response", "answer", "output", "notes"}
NAMING = {"teacher", "expert", "examiner", "grader", "assessor", "auditor", "inspector", "checker", "lehrer",
          "lehrerin", "prüfer", "prüferin", "expertin", "by"}  # fmt: skip
"""Words of columns that name who rated, in addition to `ANNOTATOR_KEYS`, which are always read."""

NAMES_OF_JUDGES = ("judge_model", "judge_name", "judge_id", "judge_llm", "llm_model", "llm_name", "grader_model",
                   "evaluator_model", "rater_model")  # fmt: skip
"""Columns that name the judge of each row."""
NAMES_OF_MODELS = ("model", "model_name", "model_id", "ai_model", "llm")
"""Columns that name the judge of each row of labels, or in files with texts the model that wrote them."""
NAMES_OF_EITHER = ("judge", "evaluator", "grader", "assessor", "examiner", "autorater")
"""Columns that name a judge or a person in each row, or hold a judge's answers."""

ITEM = (
    "item", "item_id", "example_id", "example", "conversation", "conversation_id", "dialogue_id", "dialog_id",
    "session_id", "session", "prompt_id", "question_id", "input_id", "case_id", "case", "sample_id", "task_id",
    "trace_id", "ticket", "ticket_id", "uid", "id",
)  # fmt: skip
SYSTEM = ("system", "system_id", "assistant", "bot", "model", "model_name", "candidate", "variant", "arm", "version",
          "system_version", "prompt_version", "app_version", "experiment")  # fmt: skip
RUN = ("run", "run_id", "judge_run", "repeat", "repetition", "trial", "attempt", "epoch")
SPLIT = ("split", "partition", "subset", "set", "data_split")
GROUP = ("group", "slice", "segment", "category", "topic", "domain", "language", "lang", "locale", "channel",
         "dataset", "intent", "tier", "country", "difficulty", "task", "type", "source")  # fmt: skip
TEXT = ("response", "answer", "output", "completion", "reply", "generation", "model_output", "text", "content")
CONFIDENCE_NAMES = ("confidence", "judge_confidence", "certainty")
LENGTH = {"length", "len", "tokens", "chars", "characters", "words"}

AGAINST = ("against_id", "other_conversation", "conversation_b")
"""Other names of the column with the other side of a comparison."""
ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": (
        "conversation_id", "item_id", "dialogue_id", "dialog_id", "session_id", "thread_id", "chat_id", "conv_id",
        "ticket_id", *FOREIGN_IDS, "id", "nummer", "nr",
        *FOREIGN_CONVERSATIONS, *FILE_NAMES,
    ),
    "turn": ("turn_index", "response_index"),
    "annotator": ANNOTATOR_KEYS[1:],
    "question": ("question_id", "dimension", "criterion", "aspect", "metric", "name"),
    "value": ("rating", "score", "label", "answer"),
    "against": AGAINST,
    "against_turn": (),
    "time": ("rated_at", "timestamp", "created_at"),
}  # fmt: skip
"""Names of the columns of tables of labels, by Accord's name."""
LABEL_COLUMNS = {
    "question", "answer", "comment", *ANNOTATOR_KEYS,
    *(name for ours in ("conversation", "turn", "against", "against_turn", "time") for name in (ours, *ALIASES[ours])),
}  # fmt: skip
"""Columns of tables of labels that hold no rating by their name."""
