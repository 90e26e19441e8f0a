#!/usr/bin/env bash
# Run `accord gate`, and show its result in the summary of the job and in one comment of the pull request.
#
# Ends with the exit code of the gate. A comment that cannot be written is a warning, since forks have no token for it.
#
# Arguments: those of `accord gate`.
# Environment: ACCORD_GATE_NAME tells the comments of several gates apart; ACCORD_PULL_REQUEST, GITHUB_TOKEN,
# GITHUB_REPOSITORY, GITHUB_API_URL: without one of them there is no comment; GITHUB_STEP_SUMMARY, RUNNER_TEMP.
#
# The working folder holds files of the pull request: Python runs isolated (-I), and programs that start
# here do not get the token in their environment.
set -uo pipefail
token="${GITHUB_TOKEN:-}"
export -n token
unset GITHUB_TOKEN

folder="$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/accord-gate.XXXXXX")"
trap 'rm -rf "$folder"' EXIT
result="$folder/gate.md"
name="$(printf '%s' "${ACCORD_GATE_NAME:-gate}" | tr -cd 'A-Za-z0-9._-')"
marker="<!-- accord-gate:$name -->"

accord gate "$@" --markdown "$result"
code=$?
if [ ! -s "$result" ]; then
  printf '### accord gate: could not run\n\nExit code %s; the log of the job has the reason.\n' "$code" >"$result"
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$result" >>"$GITHUB_STEP_SUMMARY"
fi

# request METHOD URL [FILE]: print the reply. The token is in no argument, which other processes could read.
request() {
  local body=()
  if [ $# -gt 2 ]; then body=(--data-binary "@$3"); fi
  curl --silent --show-error --fail --max-time 30 --request "$1" --header "Accept: application/vnd.github+json" \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$token") ${body[@]+"${body[@]}"} "$2"
}

# own_comments: print the ids of the comments that begin with the marker, one a line.
own_comments() {
  local page reply
  for page in 1 2 3 4 5 6 7 8 9 10; do
    reply="$(request GET "$comments?per_page=100&page=$page")" || return 1
    printf '%s' "$reply" | python -I -c '
import json, sys
rows = json.load(sys.stdin)
print(*(row["id"] for row in rows if (row.get("body") or "").startswith(sys.argv[1])), sep="\n")
sys.exit(len(rows) == 100)
' "$marker" && return 0
  done
  return 0
}

# comment: change the first comment with the marker that this token may change, else add one.
comment() {
  local ids id
  python -I -c '
import json, pathlib, sys
print(json.dumps({"body": sys.argv[1] + "\n" + pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")[:60000]}))
' "$marker" "$result" >"$folder/body.json" || return 1
  ids="$(own_comments)" || return 1
  for id in $ids; do
    if request PATCH "$api/issues/comments/$id" "$folder/body.json" >/dev/null; then return 0; fi
  done
  request POST "$comments" "$folder/body.json" >/dev/null
}

if [ -n "$token" ] && [ -n "${ACCORD_PULL_REQUEST:-}" ] && [ -n "${GITHUB_REPOSITORY:-}" ]; then
  api="${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY"
  comments="$api/issues/$ACCORD_PULL_REQUEST/comments"
  comment || echo "::warning::accord: no comment on pull request $ACCORD_PULL_REQUEST; give the job the permission pull-requests: write"
fi
exit "$code"
