"""Detect columns of a wide table that each hold the ratings of one annotator.

The name of such a column looks like a person (a first name, an email address, a worker id, `rater_a`), and its values
share a scale with another such column. `--rater` and `--labels` override the detection.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from accord.formats import RATING, UNNAMED, is_rating_name, words_of
from accord.project.rubric_inference import OTHER_WORDS, ObservedAnswers, infer_scale, mixed_scales, number_of

_ID = re.compile(
    r"[^@\s]+@[^@\s]+\.\w+|A[0-9A-Z]{10,15}|(?:rater|annotator|judge|coder|labell?er|reviewer)[ _-]?\w+", re.IGNORECASE
)
_SCORE_WORDS = {"rating", "ratings", "score", "scores", "label", "labels", "vote", "grade", "bewertung", "note", "by"}
_NAMES = """
aaron abby abdul abdullah adam adrian agnes ahmed aisha alan albert alejandra alejandro alex alexander alexandra
ali alice alicia alina alison allison amanda amara amelia amin amina amir amira amit amy ana anastasia andre
andrea andreas andrew andrzej angela anil anita anja anjali ann anna anne annette annika anthony antoine anton
antonio arjun arthur asha astrid aya ayse barbara bart beatrice beatriz ben benjamin bernd beth bianca bill
birgit bob boris brandon brenda brian brigitte bruno camila camille carl carla carlos carmen carol carolina
caroline caterina catherine cecilia charles charlie charlotte chen chiara chloe chris christian christina
christine christoph christopher claire clara claudia claudio colin connor cristina cynthia dan daniel daniela
david deborah deepak denis dennis derek diana diego dieter dilek dimitri dmitri dominic donald dora doris
dorothea dylan eda edith eduardo edward elena eli elias elif elisa elisabeth elizabeth ella ellen emil emilia
emily emine emma emre enrico eric erik erika esra esther ethan eva evelyn fabian fatima fatma federico felix
fernando fiona florian frances francesca francesco francisco frank frederik friedrich fritz gabriel gabriela
georg george gerd gianni giorgio giovanni gisela giulia giuseppe gloria grace greg greta guillaume gustav hana
hanna hannah hans harald harry hassan heather heidi heike heinz helen helena helga henri henry hiro hiroshi
holger hugo hui ian ibrahim ida igor ines inga ingrid irene irina isabel isabella ismail ivan ivo jack jacob
jakob jakub james jamie jan jana jane janet janina jason javier jean jeff jennifer jens jeremy jessica jim jing
joan joanna joao joe joel johan johanna johannes john jonas jonathan jordan jorge jose josef joseph joshua joyce
juan judith judy jules julia julian julie julien jun jung jurgen justin jürgen kai kamal karen karin karl
karolina kate katharina katherine kathrin katja katrin keith kelly ken kenji kenneth kevin khalid kim klaus kofi
kristin kumar kurt kwame kyle lara larry lars laura lauren lea lee leila lena leo leon leonie lewis lia liam lin
lina linda lisa liu livia liz lorenzo lori louis louise luc luca lucas lucia lucy luigi luis luisa lukas luke
lydia magda mahmoud maja manfred manuel manuela marc marcel marco marcus margaret maria mariam marie marina
mario marion marius mark markus marta martha martin martina mary mateo matt matteo matthew matthias mauro max
maya megan mehmet mei melanie melissa mia michael michel michele michelle miguel mike mila milan min mina ming
miriam mohamed mohammad mohammed mona monica monika moritz muhammad mustafa nadia nadine nancy naomi natalia
natalie natasha neha neil nicholas nick nico nicola nicolas nicole niklas nikolai nina noah noor nora norbert
nuria oksana olaf oleg olga oliver olivia omar oscar otto pablo pamela paola paolo pascal patricia patrick paul
paula pavel pedro peggy peter petra philip philipp philippe pia pierre pilar piotr priya rachel rafael rahul raj
ralf ralph ramon raphael raquel ravi ray rebecca regina renate ricardo richard rita rob robert roberto robin
rohan roland roman ron rosa rose ruby rudolf russell ruth ryan sabine sabrina sahra said salma sam samantha
samir samuel sandra sandro sanjay sara sarah sascha scott sean sebastian sergei sergio sharon shreya silke
silvia simon simone sofia sonia sophia sophie stefan stefanie stephanie stephen steve steven stuart sue sunita
susan susanne sven svetlana sylvia tania tanja tara tatiana ted teresa theo theresa thomas tim timo tina tobias
todd tom tomas tomasz tony tracy tyler ulrich ulrike ursula ute uwe valentina vanessa vera veronica veronika
victor victoria vijay viktor vincent viola vladimir walter wei wendy werner will william wolfgang xavier xiao
yael yan yang yasmin yuki yusuf yves yvonne zeynep zhang zoe
"""
_FIRST_NAMES = frozenset(_NAMES.split())


def person_in(column: str) -> str | None:
    """Return the person in the name of a column, or `None`.

    >>> person_in("nora"), person_in("Sam_rating"), person_in("clarity")
    ('nora', 'Sam', None)
    """
    if _ID.fullmatch(column):
        return column
    words = words_of(column)
    rest = [word for word in words if word not in _SCORE_WORDS]
    if not rest or len(rest) > 2 or rest[0] not in _FIRST_NAMES:
        return None
    if len(rest) == len(words):
        return column
    parts = re.split(r"[ _-]+", column)
    return " ".join(part for part in parts if part.casefold() not in _SCORE_WORDS) or None


class RaterColumns(NamedTuple):
    """Columns of annotators, with the annotator; and columns named after persons that share no scale."""

    columns: dict[str, str]
    mismatched: list[str]


def rater_columns(columns: Mapping[str, ObservedAnswers], questions: Collection[str] = ()) -> RaterColumns:
    """Return the columns that each hold the ratings of one annotator.

    Args:
        columns: Observed answers by column.
        questions: Columns that are known to be questions.
    """
    unrated = {
        name: column
        for name, column in columns.items()
        if name not in questions and len(column.values) > 1 and set(column.annotators) <= {UNNAMED}
    }
    persons = {name: who for name in unrated if (who := person_in(name)) is not None}
    others = [name for name, column in unrated.items() if name not in persons and may_be_rater(column)]
    if len(persons) >= len(others) and share_scale([unrated[name] for name in (*persons, *others)]):
        persons |= {name: name for name in others}
    if share_scale([unrated[name] for name in persons]):
        return RaterColumns(persons, [])
    numeric = [name for name in persons if _high(unrated[name].values) is not None]
    return RaterColumns({}, numeric if len(numeric) > 1 else [])


def may_be_rater(column: ObservedAnswers) -> bool:
    """Return True unless a column's name or values show that it does not hold ratings."""
    name = column.name
    is_other = is_rating_name(name) or bool(set(words_of(name)) & OTHER_WORDS) or not name.isalpha()
    return not is_other and not column.is_marked and set(column.annotators) <= {UNNAMED}


def share_scale(columns: Collection[ObservedAnswers]) -> bool:
    """Return True if two or more columns have values on one scale."""
    merged = ObservedAnswers(RATING)
    for column in columns:
        merged.values.update(column.values)
    if len(columns) < 2 or infer_scale(merged) is None or mixed_scales(merged) is not None:
        return False
    highs = [_high(column.values) for column in columns]
    if any(high is None for high in highs):
        words = [{str(value).casefold() for value in column.values} for column in columns]
        return all(high is None for high in highs) and bool(set.intersection(*words))
    return all(2 * (high or 0) >= max(highs, key=lambda high: high or 0) for high in highs)  # type: ignore[operator]


def _high(values: Counter[int | float | str]) -> float | None:
    """Return the highest value, or `None` if most values are words."""
    numbers = [number for value in values if (number := number_of(value)) is not None]
    return max(numbers) if 2 * len(numbers) > len(values) else None
