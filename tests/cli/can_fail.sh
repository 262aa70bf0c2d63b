#!/bin/sh
# can_fail.sh PROGRAM - each of these cases is wrong on purpose; the runner must say so.
set -eu
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0
while IFS= read -r line; do
    [ -n "$line" ] || continue
    n=$((n + 1))
    printf 'run --version\n%s\n' "$line" >"$dir/wrong$n.test"
    if sh "$here/run.sh" "$1" "$dir/wrong$n.test" >"$dir/log" 2>&1; then
        echo "passes although it is wrong: $line"
        failed=1
    fi
done <<'END'
exits 1
out_is <"$root/LICENSE"
out_like 'no such line'
out_unlike 'vcompress *'
one_error '*'
no_out
files something
same out err
differ out out
valid report out
holds false
END
"$1" help --schema plan >"$dir/plan.json"
echo '{"schema": "vcompress.plan/1", "error": {"code": "argument"}}' >"$dir/half.json"
if "${PYTHON:-python3}" "$here/check_schema.py" "$dir/plan.json" "$dir/half.json" >/dev/null; then
    echo "check_schema.py takes a document without a message"
    failed=1
fi
exit "$failed"
