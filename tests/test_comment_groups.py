"""Failure modes from comments of ratings: groups, names, rates by version, the command and the page."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from commands import accord_json, refused
from planted_comments import LANGUAGES, MODES, NONE, planted_comments
from served_workbench import open_workbench, token
from sklearn.metrics import adjusted_rand_score

from accord import Conversation, Project, Turn
from accord.edges import BadInput
from accord.project import Config, group_comments, load_config, taxonomy_of
from accord.project.comment_groups import FEWEST_COMMENTS, group_texts
from accord.store import ADJUDICATED
from accord.values import Annotation, Target, load_taxonomy
from accord.web import ProjectFiles

EVIL = "<script>alert(1)</script> far too long, nobody reads five paragraphs"


def rated(texts: Sequence[str], **versions: float) -> tuple[list[Conversation], list[Annotation]]:
    """A conversation and a rating with a comment for each text; versions take turns."""
    names = list(versions) or ["v1", "v2"]
    chats = [
        Conversation(f"c{place:03d}", (Turn("user", "Hello?"), Turn("assistant", "Hi.")),
                     metadata={"system": names[place % len(names)]})
        for place in range(len(texts))
    ]  # fmt: skip
    return chats, [
        Annotation(Target(f"c{place:03d}"), "Q0", "ann", "person", 2, comment=text) for place, text in enumerate(texts)
    ]


def filled(texts: Sequence[str]) -> Project:
    project = Project(Config.model_validate({"store": "sqlite:///:memory:"}))
    chats, ratings = rated(texts)
    project.store.add_conversations(chats)
    project.store.add_annotations(ratings)
    return project


@pytest.mark.parametrize("language", LANGUAGES)
def test_planted_failure_modes_are_found(language: str) -> None:
    comments = [each for each in planted_comments(language, 300) if each.mode != NONE]
    group = [-1 - place for place in range(len(comments))]
    for number, places in enumerate(group_texts([each.text for each in comments])):
        for place in places:
            group[place] = number
    assert adjusted_rand_score([MODES.index(each.mode) for each in comments], group) >= 0.8


def test_no_word_names_a_planted_mode() -> None:
    for phrases in LANGUAGES.values():
        for mode in MODES:
            words = [set(each.casefold().replace(",", "").split()) for each in phrases.mains[mode]]
            assert not set.intersection(*words)


def test_groups_do_not_depend_on_the_order_of_the_texts() -> None:
    texts = sorted({each.text for each in planted_comments("en", 150)})
    found = {frozenset(texts[place] for place in places) for places in group_texts(texts)}
    turned = texts[::-1]
    assert {frozenset(turned[place] for place in places) for places in group_texts(turned)} == found


def test_few_comments_are_not_grouped() -> None:
    with filled(["far too long", *["ok"] * 60]) as project:
        found = group_comments(project)
        assert not found.groups and found.title == "Too few comments" and f"at least {FEWEST_COMMENTS}" in found.lead
    with filled([]) as project:
        assert group_comments(project).lead.startswith("0 comments of ratings")


def test_rates_count_conversations_of_each_version_once() -> None:
    comments = [each.text for each in planted_comments("en", 120)]
    with filled(comments) as project:
        again = Annotation(Target("c000"), "Q1", "bob", "person", 1, comment=comments[0])
        old = Annotation(Target("c001"), "Q0", "ann", "person", 1)  # the last answer has no comment
        note = Annotation(
            Target("c002"), "Q0", ADJUDICATED, "person", 1, comment="decided by the lead", answer="a" * 20
        )
        chat = Conversation("none", (Turn("user", "Hello?"), Turn("assistant", "Hi.")), metadata={"system": "v1"})
        project.store.add_conversations([chat])
        project.store.add_annotations([again, old, note, Annotation(Target("none"), "Q0", "ann", "person", 3)])
        found = group_comments(project)
        texts = [each.text for group in found.groups for each in group.comments]
        assert "decided by the lead" not in texts and found.comments == 120 and found.conversations == 121
        for each in found.groups:
            own = {one.target.conversation for one in each.comments}
            assert each.rate.value == pytest.approx(len(own) / 121) and each.rate.low < each.rate.value < each.rate.high
            first = sum(int(name[1:]) % 2 == 0 for name in own)
            assert each.by_version[0].value == pytest.approx(first / 61)
        assert sum(len(each.comments) for each in found.groups) + found.ungrouped == 120
        assert group_comments(project).to_json() == found.to_json()
        assert all(len(each.name) <= 60 for each in found.groups)
        assert len({each.name for each in found.groups}) == len(found.groups)


@pytest.mark.parametrize(
    ("kinds", "why"),
    [([("a:b", "x")], "without ':'"), ([("a", " ")], "not empty"), ([("a", "x"), ("A", "y")], "both called"), ([("", "x")], "name")],
)  # fmt: skip
def test_a_bad_kind_is_refused(kinds: Sequence[tuple[str, str]], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        taxonomy_of("modes", kinds)


def test_comments_are_not_sent_to_an_endpoint() -> None:
    texts = [each.text for each in planted_comments("en", 60)]
    with filled(texts) as project, pytest.raises(BadInput, match="comments are not sent there"):
        group_comments(project, "endpoint:any")


def project_with_comments(folder: Path, texts: Sequence[str]) -> None:
    (folder / "accord.yaml").write_text("rubric: llm-rubric\n", encoding="utf-8")
    with Project(load_config(folder / "accord.yaml")) as project:
        chats, ratings = rated(texts)
        project.store.add_conversations(chats)
        project.store.add_annotations(ratings)


def test_the_command_shows_rates_and_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project_with_comments(tmp_path, [each.text for each in planted_comments("de", 120)])
    found = accord_json("issues", "--from-comments")
    assert len(found["groups"]) >= 3 and found["document"]["sections"][0]["heading"] == "Rates"
    figure: Mapping[str, object] = found["groups"][0]["rate"]
    assert figure["label"] == "rate of comments" and str(figure["text"]).endswith("%]")
    assert "add --from-comments" in refused("issues", "--embedder", "minilm-l6")


def test_the_page_makes_a_study_and_shows_comments_to_leads_only(tmp_path: Path) -> None:
    file = tmp_path / "accord.yaml"
    project_with_comments(tmp_path, [EVIL, *[each.text for each in planted_comments("en", 150)]])
    with (
        Project(load_config(file)) as project,
        open_workbench(project, ["ann"], ["lee"], files=ProjectFiles(file)) as bench,
    ):
        ann, lead = bench.browser("ann"), bench.browser("lee")
        page, data = lead.get("/comments"), json.loads(lead.get("/comments.json"))
        quotes = [each["text"] for group in data["groups"] for each in group["comments"][:5]]
        shown = html.unescape(page)
        assert all(quote in shown for quote in quotes) and "<script>alert" not in page
        for path in ("/comments", "/comments.json"):
            answer = ann.get(path)
            assert ann.status == 403 and not any(quote in html.unescape(answer) for quote in quotes if len(quote) > 20)
        page = lead.get("/comments")
        hidden = {"form": token(page), "shown": page.split('name="shown" value="')[1].split('"')[0]}
        assert ann.post("/comments", **hidden)[0] == 403
        assert lead.post("/comments", **hidden)[0] == 422, "nothing is chosen"
        fields = {**hidden, "use.0": "on", "name.0": "Too long", "definition.0": "The reply is longer than needed."}
        assert (
            lead.post("/comments", **{**fields, "shown": "old"})[0] == 422
            and not (tmp_path / "failure-modes.yaml").exists()
        )
        status, _, where = lead.post("/comments", **fields)
        assert (status, where) == (303, "/lead/failure-modes?done=created")
        assert load_taxonomy(tmp_path / "failure-modes.yaml").names == ("Too long", "Other")
        assert "Which failures do the responses have?" in lead.get(where)
        rating = ann.get("/rate/failure-modes")
        assert "Too long" in rating and "longer than needed" in rating
        assert not any(quote in html.unescape(rating) for quote in quotes if len(quote) > 20)
        page = lead.get("/comments")
        fields |= {"form": token(page), "shown": page.split('name="shown" value="')[1].split('"')[0]}
        assert lead.post("/comments", **fields)[2] == "/lead/failure-modes-2?done=created"
