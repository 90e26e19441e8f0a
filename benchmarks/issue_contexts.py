"""SODA-EVAL: issues found from the turns before a reply, or from the whole dialogue: requests, tokens, information.

    python benchmarks/issue_contexts.py [--data DIR] [--limit N] [--quick] --json OUT

The part `later-turns` of `accord paper soda-eval`: requests of both ways on ABC-Eval, and what a user's next turn tells
about the labels of a reply. Intervals: the middle 95% of the halvings of whole dialogues.
"""

from __future__ import annotations

from harness import data_folder, finish, options

from accord_papers.soda_eval.later_turns import later_turns_rows

COLUMNS = (
    "system", "what", "count", "replies", "requests", "planned", "input_tokens", "output_tokens", "auc", "macro_f1",
    "auc_gain", "f1_gain",
)  # fmt: skip
HALVINGS, QUICK = 20, 1


def main() -> None:
    parser = options("issue_contexts", str(__doc__))
    given = parser.parse_args()
    rows = later_turns_rows(
        data_folder(parser, given.data) / "abc_eval", given.limit or (QUICK if given.quick else HALVINGS)
    )
    finish("issue_contexts", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()
