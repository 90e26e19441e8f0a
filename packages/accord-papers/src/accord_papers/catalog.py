"""The papers by name; a paper's module is imported when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from accord.edges import UnknownName
from accord_papers.study import Part

PAPERS: Mapping[str, str] = {
    "llm-rubric": "accord_papers.llm_rubric.tables_and_figures",
    "rubicon": "accord_papers.rubicon.tables_and_figures",
    "soda-eval": "accord_papers.soda_eval.tables_and_figures",
    "ciu": "accord_papers.ciu.tables_and_figures",
    "adoror": "accord_papers.adoror.tables_and_figures",
}
"""Modules of the papers; each has a `PAPER`."""


@dataclass(frozen=True)
class Paper:
    """A paper and its parts.

    Attributes:
        name: Name on the command line.
        title: Title of the method.
        citation: Authors, title and place of publication.
        parts: Tables, figures and sections, in the order of the paper.
        sets: Data sets of the public data folder that the parts use.
    """

    name: str
    title: str
    citation: str
    parts: Sequence[Part]
    sets: Sequence[str] = ()


def open_paper(name: str) -> Paper:
    """Return a paper by name.

    Raises:
        UnknownName: There is no such paper.
    """
    if name not in PAPERS:
        raise UnknownName("paper", name, PAPERS)
    paper = import_module(PAPERS[name]).PAPER
    assert isinstance(paper, Paper)
    return paper
