"""Conversations of agents in three domains with planted faults in single calls of tools, and a judge that errs."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from accord.models.scripted import ScriptedJudge
from accord.values import Conversation, Label, Question, Sample, Target, Turn

FAULTS = ("wrong tool", "wrong argument", "ignored error", "invented claim", "repeated call", "policy break")
BROKEN: Mapping[str, str] = {
    "wrong tool": "tool", "wrong argument": "arguments", "ignored error": "result", "invented claim": "result",
    "repeated call": "tool", "policy break": "policy",
}  # fmt: skip
"""Question of the rubric `agent-steps` that a fault answers with 0."""


class Domain(NamedTuple):
    """Words of one domain: who speaks, the tool that looks up, the tool that acts, and a tool for something else."""

    name: str
    asked: str
    look_up: str
    key: str
    prefix: str
    fields: tuple[tuple[str, str], ...]
    act: str
    wanted: str
    other: str
    rule: str


DOMAINS = (
    Domain("shop", "Where is my order {id}?", "find_order", "order_id", "A", (("status", "shipped"), ("total", "{n}")),
           "cancel_order", "Please cancel it.", "search_catalog", "Never cancel an order before the user confirms."),
    Domain("travel", "What is booked under {id}?", "get_booking", "booking", "TR", (("hotel", "Hotel {w}"), ("nights", "{n}")),
           "change_booking", "Please change it.", "list_airports", "Never change a booking before the user confirms."),
    Domain("bank", "How much is on account {id}?", "get_balance", "account", "DE", (("holder", "{w}"), ("balance", "{n}")),
           "transfer", "Please send it to my savings.", "find_branch", "Never transfer before the user confirms."),
)  # fmt: skip
WORDS = ("Harbor", "Linden", "Meridian", "Juniper", "Cobalt", "Willow", "Saffron", "Granite")


class Planted(NamedTuple):
    """A conversation, and the fault of each of its steps by turn; empty for a right step."""

    conversation: Conversation
    faults: Mapping[int, str]


def planted_steps(count: int, seed: int = 0, share: float = 0.4) -> list[Planted]:
    """Return conversations with at least `count` steps; `share` of the steps have one fault each."""
    rng, made, steps = random.Random(seed), list[Planted](), 0
    while steps < count:
        made.append(_Agent(rng, DOMAINS[len(made) % len(DOMAINS)], f"agent-{len(made):03d}", share).run())
        steps += len(made[-1].faults)
    return made


class _Agent:
    """Plays one conversation of one to three rounds: look up, then act, each with or without a fault."""

    def __init__(self, rng: random.Random, domain: Domain, name: str, share: float) -> None:
        self.rng, self.domain, self.name, self.share = rng, domain, name, share
        self.turns = [Turn("system", f"You help customers. {domain.rule}")]
        self.faults: dict[int, str] = {}

    def run(self) -> Planted:
        for _ in range(self.rng.randint(1, 3)):
            self._look_up()
        return Planted(Conversation(self.name, tuple(self.turns), metadata={"system": self.domain.name}), self.faults)

    def _fault(self, *possible: str) -> str:
        return self.rng.choice(possible) if self.rng.random() < self.share else ""

    def _look_up(self) -> None:
        rng, domain = self.rng, self.domain
        id_, words = f"{domain.prefix}-{rng.randint(1000, 9999)}", rng.choice(WORDS)
        record = {key: text.format(n=rng.randint(20, 980), w=words) for key, text in domain.fields}
        self._say("user", domain.asked.format(id=id_))
        fault = self._fault("wrong tool", "wrong argument", "ignored error", "invented claim", "repeated call")
        error = fault == "ignored error" or (not fault and rng.random() < 0.15)
        asked = f"{domain.prefix}-{rng.randint(1000, 9999)}" if fault == "wrong argument" else id_
        tool = domain.other if fault == "wrong tool" else domain.look_up
        result: Mapping[str, Any] = {"items": []} if fault == "wrong tool" else record
        self._step(
            tool,
            {domain.key: asked},
            {"error": "backend timeout"} if error else result,
            fault,
            fault == "repeated call",
        )
        told = ", ".join(f"the {key} is {value}" for key, value in record.items())
        if fault == "invented claim":
            told += rng.choice((f", and it arrives on the {rng.randint(2, 28)}th", f", with a discount of {rng.randint(5, 60)}%",
                                f', handled by "{rng.choice(("Orion", "Vega", "Lyra"))} Partners"'))  # fmt: skip
        if fault == "wrong tool":
            told = "I could not find anything about it"
        told = "I could not reach the system, please try again later" if error and fault != "ignored error" else told
        told = "all is fine with it, nothing to do for you" if fault == "ignored error" else told
        self._say("assistant", f"{told[0].upper()}{told[1:]}.")
        if not error and rng.random() < 0.7:
            self._act(id_)

    def _act(self, id_: str) -> None:
        self._say("user", self.domain.wanted)
        fault = self._fault("policy break", "wrong argument", "ignored error")
        if fault != "policy break":
            self._say("assistant", f"Shall I go on with {id_}?")
            self._say("user", "Yes, go on.")
        asked = f"{self.domain.prefix}-{self.rng.randint(1000, 9999)}" if fault == "wrong argument" else id_
        is_error = fault == "ignored error"
        result = {"error": "not allowed in this state"} if is_error else {"done": True}
        self._step(self.domain.act, {self.domain.key: asked}, result, fault)
        self._say("assistant", self.rng.choice(("That is done.", "Done, is there anything else?", "Taken care of.")))

    def _say(self, role: str, text: str) -> None:
        self.turns.append(Turn(role, text))

    def _step(self, tool: str, arguments: Mapping[str, Any], result: Any, fault: str, again: bool = False) -> None:
        """Add a call and its result; `again` calls twice, and the second call has the fault."""
        for name in ("", fault) if again else (fault,):
            id_ = f"call-{len(self.turns)}"
            function = {"name": tool, "arguments": json.dumps(arguments)}
            self.turns.append(Turn("assistant", "", extra={"tool_calls": [{"id": id_, "function": function}]}))
            self.turns.append(Turn("tool", json.dumps(result), extra={"tool_call_id": id_}))
            self.faults[len(self.turns) - 1] = name


def messages_of(conversation: Conversation) -> dict[str, Any]:
    """Return a conversation as a row of OpenAI messages."""
    messages = [{"role": turn.role, "content": turn.content, **turn.extra} for turn in conversation.turns]
    return {"id": conversation.id, "messages": messages, "system": conversation.system}


def truth(fault: str, question: str) -> int:
    """Return the right answer to a question of `agent-steps` about a step with a fault."""
    return int(not fault if question == "step" else BROKEN.get(fault) != question)


def labels_of(made: list[Planted], annotators: tuple[str, ...] = ("ann",)) -> list[Label]:
    """Return the right answer to the main question for every step, by each annotator."""
    return [
        Label(Target(each.conversation.id, turn), "step", name, truth(fault, "step"))
        for each in made
        for turn, fault in each.faults.items()
        for name in annotators
    ]


def erring_judge(
    made: list[Planted], accuracy: float, seed: int = 0, name: str = "erring", is_shared: bool = False
) -> ScriptedJudge:
    """Return a judge that is right about each step with a probability of `accuracy`.

    Errors are independent between the questions about a step. If `is_shared`, the judge answers all of them by one
    belief about the step: its fault if right, else no fault for a wrong step and any fault for a right one. The judge
    states its answer with a probability between 0.55 and 0.95 that says nothing about whether it is right.
    """
    faults = {Target(each.conversation.id, turn): fault for each in made for turn, fault in each.faults.items()}

    def answer(sample: Sample, question: Question) -> Mapping[str, float]:
        rng = random.Random(zlib.crc32(f"{seed} {sample.target} {question.id}".encode()))
        fault = faults[sample.target]
        if is_shared:
            belief = random.Random(zlib.crc32(f"{seed} {sample.target}".encode()))
            is_right, error = belief.random() < accuracy, "" if fault else belief.choice(FAULTS)
            stated = truth(fault if is_right else error, question.id)
        else:
            right = truth(fault, question.id)
            stated = right if rng.random() < accuracy else 1 - right
        sure = rng.uniform(0.55, 0.95)
        return {str(stated): sure, str(1 - stated): 1 - sure}

    return ScriptedJudge(answer, name)
