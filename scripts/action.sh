#!/bin/sh
# action.sh - the step of action.yml, whose inputs are variables here: runs the command with its gates, writes the report and
# the table for people, and sets the outputs of the step. Exit status: that of the command; 0 for a missed gate with FAIL=false.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
program=${PROGRAM:-$(command -v vcompress || true)}
if [ -z "$program" ]; then
    program=$here/build/action/vcompress
    if [ ! -x "$program" ]; then
        . "$here/scripts/debian_packages.sh"
        need_packages gcc libc6-dev make cmake zlib1g-dev libjansson-dev 'libdeflate-dev?' 'libisal-dev?' 'nettle-dev?'
        cmake -S "$here" -B "$here/build/action" -DVCOMPRESS_CUDA=OFF -DVCOMPRESS_TESTS=OFF >/dev/null
        cmake --build "$here/build/action" -j "$(nproc)" --target vcompress_program >/dev/null
    fi
fi
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/vcompress-XXXXXX")
# Words with quotes as in a shell; nothing in them is run.
printf '%s' "${OPTIONS:-}" | xargs -r -n 1 printf '%s\n' >"$folder/words"
set --
while IFS= read -r word; do set -- "$@" "$word"; done <"$folder/words"
if [ -n "${GATES:-}" ]; then set -- "$@" "--gates=$GATES"; fi
if [ -n "${BASELINE:-}" ]; then set -- "$@" "--baseline=$BASELINE"; fi
if [ -n "${MAX_GROWTH:-}" ]; then set -- "$@" "--max-growth=$MAX_GROWTH"; fi
if [ -n "${MIN_RATIO:-}" ]; then set -- "$@" "--min-ratio=$MIN_RATIO"; fi
if [ -n "${MIN_SQNR:-}" ]; then set -- "$@" "--min-sqnr=$MIN_SQNR"; fi
if [ -n "${MAX_BYTES:-}" ]; then set -- "$@" "--max-bytes=$MAX_BYTES"; fi
if [ -n "${MUST_FIT:-}" ]; then set -- "$@" "--must-fit=$MUST_FIT"; fi
if [ -n "${OUTPUT:-}" ]; then set -- "$@" "--output=$OUTPUT"; fi
status=0
"$program" "${COMMAND:-quantize}" "$@" --json="$folder/report.json" --markdown "$folder/summary.md" -- "$INPUT" || status=$?
passed=true
if [ "$status" -ne 0 ]; then passed=false; fi
# The gates of the report stand in one line: {"met": false, "missed": "w has ...", "each": [{"id": "min_sqnr_db", ... "passed": false}]}
gates=$(sed -n 's/^  "gates": //p' "$folder/report.json" 2>/dev/null || true)
missed=$(printf '%s\n' "$gates" | sed -n 's/.*"missed": "\(\([^"\\]\|\\.\)*\)".*/\1/p' | sed 's/\\\(["\\]\)/\1/g')
gate=$(printf '%s\n' "$gates" | tr '{' '\n' | sed -n 's/^"id": "\([a-z_0-9]*\)".*"passed": false.*/\1/p' | head -n 1)
printf 'report=%s\nsummary=%s\npassed=%s\ngate=%s\nmissed=%s\n' "$folder/report.json" "$folder/summary.md" "$passed" "$gate" "$missed" >>"${GITHUB_OUTPUT:-/dev/stdout}"
if [ -s "$folder/summary.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$folder/summary.md" >>"$GITHUB_STEP_SUMMARY"; fi
if [ "$status" -eq 1 ] && [ "${FAIL:-true}" = false ]; then status=0; fi
exit "$status"
