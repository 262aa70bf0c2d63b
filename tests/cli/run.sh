#!/bin/sh
# run.sh PROGRAM CASE.test... - runs cases of the command line. Exit status 0 when all hold.
#
# A case is a list of the commands below, run by sh in an empty folder of its own:
#   make FILE SPEC...      writes an npz (make_npz.py says how)
#   make_pt FILE SPEC...   writes a PyTorch file (make_pt.py says how)
#   run ARGUMENT...        runs the program: its streams go to the files out and err, its status to $rc
#   run_from FILE ARG...   the same with FILE as standard input
#   exits N                the status is N
#   out_is, err_is         exactly the text that follows as a here document
#   out_like, err_like P   some line matches the glob P;  out_unlike, err_unlike P: none does
#   one_error P            err is a single line that matches the glob P
#   no_out, no_err         nothing was printed there
#   golden NAME            out is golden/NAME (UPDATE=1 writes it)
#   files NAME...          the folder holds exactly these, besides out and err
#   same A B, differ A B   the files are equal, or not
#   valid DOCUMENT FILE    FILE is JSON and holds what the schema of this document (help --schema) asks for
#   has FILE EXPRESSION    python's EXPRESSION over the document d in FILE is true
#   holds COMMAND...       the command succeeds
# shellcheck disable=SC2317 # the cases call what looks unreachable here
set -u
[ $# -ge 2 ] || { sed -n '2,22s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
python=${PYTHON:-python3}
shift
LC_ALL=C.UTF-8 TERM=dumb
export LC_ALL TERM
folders=${TMPDIR:-/tmp} # of the tests; the program does not see it
unset COLUMNS NO_COLOR VC_CPU_MASK TMPDIR

wrong() { # says what is wrong, once per finding; the case goes on
    failed=1
    printf '%s: %s\n' "$case_name" "$*"
    [ ! -s out ] || cut -c 1-200 out | LC_ALL=C tr -d '\000-\011\013-\037' | sed 's/^/    out| /' | head -n 12
    [ ! -s err ] || sed 's/^/    err| /' err | head -n 6
}
make() { "$python" "$here/make_npz.py" "$@" || wrong "cannot make $1"; }
make_pt() { "$python" "$here/make_pt.py" "$@" || wrong "cannot make $1"; }
run() { run_from /dev/null "$@"; }
run_from() {
    input=$1
    shift
    last="vcompress $*"
    "$program" "$@" <"$input" >out 2>err
    rc=$?
}
exits() { [ "$rc" -eq "$1" ] || wrong "$last: exit status $rc, not $1"; }
text_is() { # FILE, the wanted text on standard input
    cat >"$case_folder.want"
    if ! diff "$case_folder.want" "$1" >"$case_folder.diff"; then
        wrong "$last: $1 is not what was wanted (<)"
        sed 's/^/    /' "$case_folder.diff"
    fi
}
out_is() { text_is out; }
err_is() { text_is err; }
some_line() { # FILE GLOB
    while IFS= read -r text || [ -n "$text" ]; do
        # shellcheck disable=SC2254
        case $text in $2) return 0 ;; esac
    done <"$1"
    return 1
}
out_like() { some_line out "$1" || wrong "$last: no line of out is like $1"; }
err_like() { some_line err "$1" || wrong "$last: no line of err is like $1"; }
out_unlike() { ! some_line out "$1" || wrong "$last: a line of out is like $1"; }
err_unlike() { ! some_line err "$1" || wrong "$last: a line of err is like $1"; }
one_error() {
    [ "$(wc -l <err)" -eq 1 ] || wrong "$last: err has $(wc -l <err) lines"
    err_like "$1"
}
no_out() { [ ! -s out ] || wrong "$last: prints on standard output"; }
no_err() { [ ! -s err ] || wrong "$last: prints on standard error"; }
golden() {
    if [ -n "${UPDATE:-}" ]; then
        cp out "$here/golden/$1"
    elif [ -f "$here/golden/$1" ]; then
        text_is out <"$here/golden/$1"
    else
        wrong "$last: there is no golden/$1"
    fi
}
files() {
    found=$(find . -mindepth 1 ! -name out ! -name err | sed 's|^\./||' | sort | tr '\n' ' ')
    wanted=$(printf '%s\n' "$@" | sort | tr '\n' ' ')
    [ "$found" = "$wanted" ] || wrong "$last: the folder holds '$found', not '$wanted'"
}
same() { cmp -s "$1" "$2" || wrong "$last: $1 and $2 differ"; }
differ() { ! cmp -s "$1" "$2" || wrong "$last: $1 and $2 are the same"; }
valid() {
    "$program" help --schema "$1" >"$case_folder.wanted" || wrong "there is no schema $1"
    "$python" "$here/check_schema.py" "$case_folder.wanted" "$2" >"$case_folder.schema" 2>&1 || wrong "$last: $(cat "$case_folder.schema")"
}
has() {
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2" || wrong "$last: $2 does not hold in $1"
}
holds() { "$@" || wrong "$last: not so: $*"; }

scratch=$(mktemp -d "$folders/cli.XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
status=0
for case_file in "$@"; do
    case_name=$(basename "$case_file" .test)
    case_folder=$scratch/$case_name
    case_file=$(cd "$(dirname "$case_file")" && pwd)/$case_name.test
    mkdir "$case_folder"
    (
        cd "$case_folder" || exit 2
        failed=0 rc=0 last=
        # shellcheck disable=SC1090
        . "$case_file"
        exit "$failed"
    ) || { status=1; echo "FAILED $case_name"; }
done
exit "$status"
