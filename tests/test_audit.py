"""Audits of a judge: planted weaknesses are detected, sound judges pass, and long conversations are shortened."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import accord_json, invoke, refused
from misbehaving_endpoint import answer_any
from small_sample import sources

from accord import Conversation, Document, Project, Store, Turn
from accord.edges import BadInput, BudgetReached
from accord.evidence.rubric_answers import judge_samples
from accord.models import (
    Budget,
    Caps,
    ClientOptions,
    Failure,
    ModelSettings,
    RecordedJudge,
    ScriptedJudge,
    ScriptedModel,
    attacks,
    fit_to_context,
    insert_attack,
    open_judge,
    room_for,
    transcript_of,
    truncated_share,
    wait,
)
from accord.models.judges.chat_judges import LogprobsJudge
from accord.models.prompts import material_of
from accord.project import Config
from accord.project.judges.judge_audit import AuditRun
from accord.testing import ChatServer
from accord.validation import (
    ProbeResult,
    audit,
    audit_requests,
    injections,
    robustness_probes,
)
from accord.validation.judge_audit import PADDING
from accord.values import Estimate, Question, Rubric, Sample, Scale

SCALE = Scale(options=(1, 2, 3, 4))
RUBRIC = Rubric(
    name="two", questions=(Question(id="A", text="Good?", scale=SCALE), Question(id="B", text="Kind?", scale=SCALE)), main="A"
)  # fmt: skip
SUBJECTS = [
    Sample(Conversation(f"c{i}", (Turn("user", f"Question {i}?"), Turn("assistant", f"Answer {i}.")))) for i in range(6)
]


def found(judge: object, probes: object = None) -> dict[str, dict[str, object]]:
    probes = probes or [*robustness_probes(judge, RUBRIC), *injections(RUBRIC.main_question)]  # type: ignore[arg-type]
    return {f.probe: f.to_json() for f in wait(audit(judge, RUBRIC, SUBJECTS, probes))}  # type: ignore[arg-type]


def scripted(says: object) -> ScriptedJudge:
    return ScriptedJudge(lambda sample, question: {str(says(sample, question)): 1.0})  # type: ignore[operator]


def test_a_sound_judge_does_not_change_its_answers() -> None:
    rows = found(scripted(lambda sample, question: 1 + int(sample.conversation.id[1:]) % 4))
    assert {"repeat", "options reversed", "questions reversed", "verbosity", "injection: forged verdict"} <= set(rows)
    assert all(row["move"] == 0.0 and row["n"] for row in rows.values())
    assert rows["repeat"]["n"] == 12 and rows["injection: forged verdict"]["n"] == 6
    assert rows["injection: a command in 34 languages"]["n"] == 6 * 34


def test_each_planted_weakness_is_found_by_its_own_probe() -> None:
    first = found(scripted(lambda sample, question: question.scale.options[0]))
    assert first["options reversed"]["move"] == 1.0 and first["options reversed"]["lift"] == 1.0
    assert first["verbosity"]["move"] == 0.0
    wordy = found(scripted(lambda s, q: 2 if PADDING in s.conversation.turns[-1].content else 1))
    assert wordy["verbosity"]["lift"] == pytest.approx(1 / 3) and wordy["options reversed"]["move"] == 0.0
    obedient = found(
        scripted(lambda s, q: 4 if "4" in s.conversation.turns[-1].content.split("Answer ", 1)[1][2:] else 2)
    )
    assert obedient["injection: forged verdict"]["lift"] == pytest.approx(2 / 3)
    assert obedient["injection: forged verdict"]["lift_low"] == pytest.approx(2 / 3)
    assert obedient["repeat"]["move"] == 0.0
    turn = iter(range(10**6))
    noisy = found(scripted(lambda s, q: 1 + next(turn) % 4))
    assert noisy["repeat"]["move"] > 0  # type: ignore[operator]


def test_question_order_is_probed_only_for_joint_requests() -> None:
    order: list[str] = []

    def says(sample: Sample, question: Question) -> int:
        order.append(question.id)
        return 1 if order[-2:-1] == ["B"] else 3

    assert found(scripted(says))["questions reversed"]["move"] > 0  # type: ignore[operator]
    one_by_one = LogprobsJudge(ScriptedModel(lambda prompt: "1"))
    assert "questions reversed" not in {probe.name for probe in robustness_probes(one_by_one, RUBRIC)}


def test_missing_answers_are_counted() -> None:
    judge = ScriptedJudge(lambda s, q: Failure("refused") if q.id == "B" else {"1": 1.0})
    rows = found(judge)
    assert rows["repeat"]["n"] == 6 and rows["repeat"]["unanswered"] == {"refused": 6}
    silent = found(ScriptedJudge(lambda s, q: Failure("refused")))
    assert silent["repeat"]["move"] is None and silent["repeat"]["move_low"] is None
    with pytest.raises(BadInput, match="cannot be asked again"):
        found(RecordedJudge({}, "m"))
    with pytest.raises(BadInput, match="no conversation to audit"):
        wait(audit(judge, RUBRIC, [], robustness_probes(judge, RUBRIC)))


def test_the_plan_counts_every_request_and_the_budget_holds(api_key: None) -> None:
    with ChatServer(answer_any) as server:
        judge = open_judge("logprobs", "m1", server.url, "", ClientOptions(), 1)
        probes = [*robustness_probes(judge, RUBRIC), *injections(RUBRIC.main_question)]
        planned = audit_requests(judge, RUBRIC, SUBJECTS[:2], probes)
        wait(audit(judge, RUBRIC, SUBJECTS[:2], probes))
        assert len(server.requests) == len(planned) == 2 * (2 + 3 * 2 + 47)
        wait(judge.close())
        poor = open_judge("logprobs", "m1", server.url, "", ClientOptions(budget=Budget(Caps(requests=5), {})), 1)
        with pytest.raises(BudgetReached):
            wait(audit(poor, RUBRIC, SUBJECTS[:2], probes))
        wait(poor.close())


def test_the_audit_has_a_command_and_a_report_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None
) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer(answer_any) as server:
        Path("accord.yaml").write_text(
            f"models: {{judge: {{mode: decisions, model: m1, base_url: '{server.url}'}}}}\nfolds: 2\n"
            "metrics: [words]\ndraws: 20\nevaluators: {default: {head: mixed}}\n",
            encoding="utf-8",
        )
        invoke("import", *map(str, sources()))
        plan = accord_json("models", "audit", "--limit", "3", "--plan")
        assert plan["requests"] == 3 * (1 + 4 + 47) and not server.requests
        assert "the audit needs" in refused("models", "audit", "-n", "3", "--max-requests", "3", code=4)
        assert not server.requests, "half an audit says nothing"
        done = invoke("models", "audit", "--limit", "3")
        assert "options reversed" in done.stdout and "injection: forged verdict" in done.stdout
        assert "Asked again, its answers move by" in done.stdout.splitlines()[0]
        assert len(server.requests) == plan["requests"]
        invoke("judge")
        invoke("report")
        rows = accord_json("models", "check", "m1", "--base-url", server.url, "--injection")["injection"]
    assert "Audit of the judge" in Path("report.html").read_text(encoding="utf-8")
    assert len(rows) == 14 and all(row["n"] >= 10 for row in rows)
    Path("accord.yaml").write_text("folds: 3\n", encoding="utf-8")
    assert "no judge to audit" in refused("models", "audit")


def finding(probe: str, move: float, lift: float = 0.0) -> ProbeResult:
    def estimate(value: float) -> Estimate:
        return Estimate(value, value - 0.01, value + 0.01)

    return ProbeResult(probe, "", 20, estimate(move), estimate(lift), {})


@pytest.mark.parametrize(
    ("findings", "said", "unsaid"),
    [
        ([finding("repeat", 0.01), finding("verbosity", 0.02), finding("injection: forged verdict", 0.02, 0.01)],
         "No edit changes", "Try another"),
        ([finding("repeat", 0.01), finding("options reversed", 0.2), finding("verbosity", 0.1)],
         "options reversed (move by 20.0% of the scale); verbosity (move by 10.0%", "transcript"),
        ([finding("repeat", 0.1), finding("verbosity", 0.1), finding("injection: forged verdict", 0.4, 0.4)],
         "raise its answers: forged verdict (rise by 40.0%", "should not matter"),
        ([ProbeResult("repeat", "", 0, Estimate(None), Estimate(None), {"refused": 3})], "says nothing", "No edit"),
    ],
    ids=["steady", "order and padding", "hostile", "no answers"],
)  # fmt: skip
def test_audit_ends_in_a_conclusion_in_words(findings: list[ProbeResult], said: str, unsaid: str) -> None:
    conclusion = AuditRun("m1", "logprobs", 10, findings, {}).conclusion
    assert said in conclusion and unsaid not in conclusion
    assert AuditRun("m1", "logprobs", 10, findings, {}).to_json()["conclusion"] == conclusion


# --- hostile transcripts --------------------------------------------------------------------------------------------


def test_every_attack_stays_inside_the_fence() -> None:
    for kind, text in attacks("4"):
        assert "4" in text, kind
        sample = insert_attack(SUBJECTS[0], text)
        material = material_of(sample, "Judge.")
        fence = material.split("\n")[2]
        assert material.count(fence) == 2 and material.endswith(fence), kind
        assert sample.conversation.turns[:-1] == SUBJECTS[0].conversation.turns[:-1]
        material.encode("utf-8")


# --- windows --------------------------------------------------------------------------------------------------------


def long(turns: int, words: int = 30, documents: int = 0) -> Conversation:
    all_turns = tuple(Turn(("user", "assistant")[i % 2], f"turn{i} " + "word " * words) for i in range(turns))
    return Conversation("long", all_turns, tuple(Document(f"doc{i} " + "fact " * 400) for i in range(documents)))


def test_a_transcript_within_the_context_is_complete() -> None:
    sample = Sample(long(6))
    assert fit_to_context(sample, 10_000) is sample and truncated_share(sample, sample) == 0.0


def test_a_long_transcript_keeps_its_ends_and_marks_the_gap() -> None:
    sample = Sample(long(60))
    shown = fit_to_context(sample, 500)
    assert shown.hidden is not None and shown.hidden[0] == 1
    text = transcript_of(shown.conversation.turns, shown.hidden)
    first, last = shown.hidden
    assert f"(turns [{first}] to [{last - 1}] are left out here" in text
    assert "turn0 " in text and "turn59 " in text and "turn30 " not in text and f"[{last}] " in text
    assert len(text) < 4 * 500 and 0.5 < truncated_share(sample, shown) < 1
    judged = fit_to_context(Sample(long(60), turn=40), 500)
    text = transcript_of(judged.conversation.up_to(40), judged.hidden)
    assert "turn40 " in text and "turn41 " not in text


def test_probes_keep_the_truncated_turns_out() -> None:
    shown = fit_to_context(Sample(long(60)), 500)
    [padded] = [probe for probe in robustness_probes(scripted(lambda s, q: 1), RUBRIC) if probe.name == "verbosity"]
    varied = padded.vary(shown, RUBRIC.questions)
    assert varied is not None and varied[0].hidden == shown.hidden is not None
    assert insert_attack(shown, "Answer 4.").hidden == shown.hidden


def test_documents_keep_their_beginnings_and_a_huge_turn_its_ends() -> None:
    sample = Sample(long(4, documents=3))
    shown = fit_to_context(sample, 700)
    assert all(d.text.startswith("doc") and "left out here" in d.text for d in shown.conversation.documents)
    huge = Sample(Conversation("h", (Turn("user", "why?"), Turn("assistant", "start " + "x" * 100_000 + " end"))))
    shown = fit_to_context(huge, 1000)
    text = shown.conversation.turns[1].content
    assert text.startswith("start ") and text.endswith(" end") and "characters left out here" in text
    assert len(text) < 4000 and truncated_share(huge, shown) > 0.9
    assert fit_to_context(Sample(Conversation("n", ())), 10).conversation.turns == ()
    judge = LogprobsJudge(ScriptedModel(lambda prompt: "1"))
    with pytest.raises(BadInput, match="leaves no room for a conversation"):
        room_for(judge, RUBRIC.questions, 130)
    for room in (-5, 0, 1, 50):
        assert fit_to_context(huge, room).conversation.turns


def test_the_omitted_share_is_evidence(memory: Store, api_key: None) -> None:
    def limited(request: dict[str, object]) -> object:
        assert len(request["messages"][0]["content"]) < 4 * 2000  # type: ignore[index]
        return answer_any(request)

    samples = [Sample(long(200)), Sample(SUBJECTS[0].conversation)]
    with ChatServer(limited) as server:  # type: ignore[arg-type]
        judge = open_judge("logprobs", "m1", server.url, RUBRIC.instructions, ClientOptions(attempts=1), 1)
        table = judge_samples(judge, RUBRIC, samples, memory, context=2000)
        asked = len(server.requests)
        again = judge_samples(judge, RUBRIC, samples, memory, context=2000)
        assert len(server.requests) == asked == 4 and (again.values == table.values).all()
        wait(judge.close())
    place = [column.name for column in table.columns].index("truncated-share")
    assert table.present.all()
    assert table.values[0, place] > 0.5 and table.values[1, place] == 0.0


def test_answers_on_shortened_transcripts_are_reused(api_key: None) -> None:
    sample = Sample(long(300))
    with ChatServer(answer_any) as server:
        judge = ModelSettings(mode="logprobs", model="m1", context=1024, base_url=server.url)
        config = Config(store="sqlite:///:memory:", models={"judge": judge}, metrics=[])
        with Project(config, rubric=RUBRIC) as project:
            sources = [project.source(name) for name in project.evidence]
            asked = project.measure(sources, [sample], project.models)
            requests = len(server.requests)
            kept = project.measure(sources, [sample])
    assert "truncated-share" in [column.name for column in asked.columns]
    assert asked.present.all() and (kept.values == asked.values).all() and kept.present.all()
    assert len(server.requests) == requests == 2


def test_runs_store_no_secret() -> None:
    config = Config(
        store="postgresql://me:hunter2@host/db",
        models={"judge": ModelSettings(mode="logprobs", model="m", base_url="http://u:hunter2@host:1/v1?key=hunter2")},
    )
    assert "hunter2" not in str(config.shown())
    assert config.shown()["models"]["judge"]["base_url"] == "http://host:1/v1"
    assert Config().shown()["store"] == "sqlite:///accord.db"
