"""Scales of letters and of words with an order, detected or stated by `--order`, in a check and in an import."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import accord, accord_json, printed, refused, write
from new_project import new_project

import accord as package
from accord import Project
from accord.edges import BadInput
from accord.formats import ObservedAnswers, infer_scale, parse_orders
from accord.project import Config


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def meanings(*values: Any) -> list[str]:
    inferred = infer_scale(observed(*values))
    return [] if inferred is None or not inferred.scale.is_ordered else list(inferred.meanings.values())


def observed(*values: Any) -> ObservedAnswers:
    found = ObservedAnswers("grade")
    for value in values:
        found.add(value, None, None)
    return found


@pytest.mark.parametrize(
    "words",
    [
        "F D C B A", "C- B B+ A", "poor fair good great", "never rarely sometimes often always", "bad ok good",
        "strongly_disagree disagree neutral agree strongly_agree", "low medium high", "none minor major",
        "schlecht mittel gut", "nie selten oft immer", "niedrig mittel hoch", "stimme_nicht_zu neutral stimme_zu",
    ],
)  # fmt: skip
def test_words_with_a_known_order_are_ordered(words: str) -> None:
    given = [word.replace("_", " ") for word in words.split()]
    assert meanings(*sorted(given)) == given


@pytest.mark.parametrize("words", ["A B", "A B tie", "red blue green", "low high None", "G H I"])
def test_other_words_have_no_order(words: str) -> None:
    found = meanings(*words.split())
    assert found == (["low", "high"] if "low" in words else [])


@pytest.mark.parametrize("values", [range(1, 11), (2, 3, 10), (1, 4, 5, 9, 10)])
def test_one_to_ten_is_a_scale_of_ten(values: Any) -> None:
    inferred = infer_scale(observed(*values))
    assert inferred is not None and inferred.scale.options == tuple(range(1, 11))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("A", "it has one word"), ("", "it has one word"), ("A>>B", "a word is empty"), ("A>b>a", "a word occurs twice"),
        ("=A>B", "--order takes"), ("5>4>3", "numbers keep their own order"),
        (">".join(f"w{place}" for place in range(30)), "at most 20"),
    ],
)  # fmt: skip
def test_orders_of_another_form_are_refused(order: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as caught:
        parse_orders(order)
    assert "\n" not in str(caught.value)


GRADES = "ABCDF"
ROWS = [{"id": n, "judge": GRADES[n % 5], "human": GRADES[(n * 3 // 2) % 5]} for n in range(60)]
TONES = ("cold", "plain", "warm")
TONED = [{"id": n, "judge": TONES[n % 3], "human": TONES[n // 2 % 3]} for n in range(60)]


def table(name: str, rows: list[dict[str, Any]]) -> str:
    return write(name, ",".join(rows[0]) + "\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows))


def test_a_check_reads_letters_and_stated_orders() -> None:
    assert str(package.check(ROWS).scale) == "F to A, 5 values"
    tens = [{"id": n, "judge": n % 10 + 1, "human": n * 3 % 10 + 1} for n in range(60)]
    assert str(package.check(tens).scale) == "1 to 10, 10 values"
    assert package.check(TONED).scale.kind == "nominal"
    ordered = package.check(TONED, order="warm>plain>cold>icy").scale
    assert (str(ordered), ordered.kind) == ("icy to warm, 4 values", "ordered")
    assert "icy to warm" in printed("check", table("tones.csv", TONED), "--order", "warm>plain>cold>icy")


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("warm>cold", "has the value 'plain', and the order has only warm>cold"),
        ("good>bad", "no column has these words; columns of labels and answers with words: human, judge"),
        ("note=warm>cold", "no column has these words"),
    ],
)
def test_a_check_refuses_an_order_that_does_not_fit(order: str, reason: str) -> None:
    assert reason in refused("check", table("tones.csv", TONED), "--order", order)


SEVERITIES = ("none", "minor", "major")


def test_none_is_an_answer_beside_minor_and_major_alone() -> None:
    rows = [{"id": n, "judge": SEVERITIES[n % 3], "human": SEVERITIES[n // 2 % 3]} for n in range(60)]
    result = package.check(rows)
    assert (str(result.scale), result.labeled) == ("none to major, 3 values", 60)
    others = [{**row, "human": {"none": "None", "minor": "low", "major": "high"}[str(row["human"])],
               "judge": {"none": "low", "minor": "low", "major": "high"}[str(row["judge"])]} for row in rows]  # fmt: skip
    assert package.check(others).labeled == 40


CHATS = "id,prompt,response\n" + "".join(f"c{n},Hi.,Hello!\n" for n in range(6))
LABELS = "conversation,annotator,grade\n" + "".join(f"c{n},ann,{TONES[n % 3]}\n" for n in range(6))


def test_an_order_makes_the_scale_of_a_rubric_and_of_its_labels() -> None:
    write("chats.csv", CHATS), write("labels.csv", LABELS)
    accord("init", "--from", "labels.csv", "chats.csv", "--order", "grade=warm>plain>cold>icy")
    [question] = yaml.safe_load(Path("rubric.yaml").read_text(encoding="utf-8"))["questions"]
    assert list(question["options"].values()) == ["icy", "cold", "plain", "warm"]
    accord_json("import", "chats.csv", "labels.csv", "--order", "warm>plain>cold>icy")
    with package.open("accord.yaml") as project:
        assert Counter(label.value for label in project.store.labels()) == {2: 2, 3: 2, 4: 2}
    assert "the rubric has 'grade' with another order" in refused(
        "import", "chats.csv", "labels.csv", "--order", "cold>plain>warm"
    )
    assert "has the value 'cold'" in refused("import", "chats.csv", "labels.csv", "--order", "warm>plain")
    assert "no question has these words" in refused("import", "chats.csv", "labels.csv", "--order", "up>down")


def test_an_order_is_named_in_the_command_for_a_rubric() -> None:
    new_project()
    write("chats.csv", CHATS), write("labels.csv", LABELS)
    said = accord("import", "chats.csv", "labels.csv", "--order", "warm>plain>cold")
    assert "--order 'warm>plain>cold'" in said


def test_python_imports_labels_on_a_stated_order() -> None:
    rows = [{"conversation": f"c{n}", "annotator": "ann", "grade": TONES[n % 3]} for n in range(6)]
    chats = [{"id": f"c{n}", "prompt": "Hi.", "response": "Hello!"} for n in range(6)]
    with Project(Config(store="sqlite:///accord.db")) as project:
        project.import_([chats, rows], order="warm>plain>cold")
        assert {label.value for label in project.store.labels()} == {1, 2, 3}
        with pytest.raises(BadInput, match="has the value 'hot'"):
            project.import_([{**rows[0], "grade": "hot"}, *rows[1:]], order="warm>plain>cold")
