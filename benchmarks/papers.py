"""Parts of the five papers: status, main figure and published figure of each, from `accord paper`.

    python benchmarks/papers.py [--data DIR] [--only llm-rubric,ciu] [--quick] --json OUT

`--quick` lists what each part runs on. Otherwise each part averages over `--limit` splits, draws or seeds (default 3).
"""

from __future__ import annotations

from harness import Row, chosen, data_folder, finish, options

from accord_papers import PAPERS, Part, PartTable, StudyInput, open_paper, run_parts

COLUMNS = ("paper", "part", "status", "value", "published", "statistic", "row", "reason")


def main() -> None:
    parser = options("papers", str(__doc__), tuple(PAPERS))
    given = parser.parse_args()
    rows: list[Row] = []
    for name in chosen(parser, given.only, tuple(PAPERS)):
        parts = open_paper(name).parts
        if given.quick:
            rows += [{"paper": name, "part": part.name, "status": _runs(part), "reason": part.limits} for part in parts]
            continue
        for result in run_parts(parts, StudyInput(data_folder(parser, given.data), repeats=given.limit or 3)):
            row: Row = {"paper": name, "part": result.part.name, "status": result.availability}
            rows.append({**row, "reason": result.reason, **(_figure(result.table) if result.table else {})})
    finish("papers", rows, COLUMNS, given.json)


def _runs(part: Part) -> str:
    """Return the kinds of input that a part runs on."""
    kinds = [name for name, run in (("data", part.on_data), ("project", part.on_project)) if run is not None]
    return f"runs on {' and '.join(kinds)}" if kinds else "impossible"


def _figure(table: PartTable) -> Row:
    """Return the main statistic of a table's first row that has it, with the published figure if any row has one."""
    for statistic in table.statistics:
        known = [row for row in table.rows if row.get(statistic) is not None]
        row = next((row for row in known if row.get(f"{statistic}_published") is not None), known[0] if known else None)
        if row is not None:
            ends = {f"value_{end}": row.get(f"{statistic}_{end}") for end in ("low", "high")}
            named = ", ".join(str(row[label]) for label in table.labels if row.get(label) is not None)
            return {"statistic": statistic, "row": named, "value": row[statistic], **ends,
                    "published": row.get(f"{statistic}_published")}  # fmt: skip
    return {}


if __name__ == "__main__":
    main()
