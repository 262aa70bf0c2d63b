#!/bin/sh
# compare.sh [-e FILE] [-x PATH]... [-m NAME]... [-k FOLDER] [-i FOLDER] BEFORE AFTER [SECTION...] - do two vcompress programs do the same?
#
# Runs the commands of cases/*.sh (or of the named ones only) once with the program BEFORE and once with AFTER, both at
# the same time, in folders of their own and on the same inputs (make_inputs.py, the digits model, the fuzz corpus).
# Then it compares, command by command, the exit status, both streams and every file, byte for byte. Reports as JSON are
# compared member by member; differences.py says what may differ in them. No results are stored: BEFORE is the judge.
#
#   -e FILE    differences that are wanted: globs, one a line, compared with whole lines of the list
#   -x PATH    also look at, verify and quantize this file, or the files of this folder; repeatable
#   -m NAME    a member that JSON documents of AFTER may have in addition; repeatable
#   -k FOLDER  keep the inputs and, of the sections with differences, all that the programs left, in this new folder
#   -i FOLDER  take the inputs that a run with -k left in this folder, and make none
#
# Prints a line for each difference: "section: command: what differs". Exit status 0: none, or all of them are wanted;
# 1: there are others; 2: the comparison could not be made.
# shellcheck disable=SC2317,SC2086 # the cases call what looks unreachable; numbers need no quotes
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
expected=/dev/null keep='' inputs='' more=''
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2; }
new_members=
while getopts e:x:k:i:m: option; do
    case $option in
        e) expected=$OPTARG ;;
        x) more="$more
$(realpath "$OPTARG")" ;;
        k) keep=$OPTARG ;;
        i) inputs=$(realpath "$OPTARG") ;;
        m) new_members="$new_members $OPTARG" ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
for program in "$1" "$2"; do
    [ -x "$program" ] || { echo "compare.sh: $program is not a program" >&2; exit 2; }
done
before=$(realpath "$1") after=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- schemes policies passes formats folders outputs reading long damaged corpus commands

if [ -n "$keep" ]; then
    mkdir "$keep" && scratch=$(cd "$keep" && pwd) || exit 2
else
    scratch=$(mktemp -d) || exit 2
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 2' HUP INT TERM
fi
LC_ALL=C.UTF-8 TERM=dumb
export LC_ALL TERM
unset COLUMNS NO_COLOR VC_CPU_MASK
if [ -n "$inputs" ]; then
    ln -s "$inputs/in" "$scratch/in" || exit 2
else
    "$python" -B "$here/make_inputs.py" "$scratch/in" "$root/tests/fuzz/corpus" || exit 2
    cp -r "$root/examples/digits" "$scratch/in" || exit 2
fi

# ---- what a section is written with: one program, one folder per group of commands --------------------------------------
begin() { # a new folder for the commands that follow
    case_number=$((case_number + 1))
    mkdir "$side/$case_number" || exit 2
    cd "$side/$case_number" || exit 2
    step=0
}
run() { # runs the program; its streams go to out.N and err.N, the command line and the status to cmd.N and rc.N
    step=$((step + 1))
    printf '%s\n' "$*" >cmd.$step
    timeout -k 5 60 "$program" "$@" >out.$step 2>err.$step </dev/null
    echo $? >rc.$step
}
run_from() { # the same with a file as standard input
    step=$((step + 1))
    input=$1
    shift
    printf '%s\n' "$* <$input" >cmd.$step
    timeout -k 5 60 "$program" "$@" >out.$step 2>err.$step <"$input"
    echo $? >rc.$step
}
one() { begin; run "$@"; } # a command in a folder of its own
there_and_back() { # INPUT EXTENSION OPTION... : quantize, look at the result from all sides, dequantize
    begin
    source=$1 o=o.$2
    shift 2
    run quantize --diffable --json=report.json "$@" "$source" -o "$o"
    [ -e "$o" ] || return 0
    run verify --data --sha256 --diffable "$o" --against "$source"
    run inspect --json --stats "$o"
    run diff --json "$source" "$o"
    run dequantize --json=back.json -q "$o" -o "back.${o##*.}"
    run dequantize --source-dtype -q "$o" -o "source.${o##*.}"
}
section() ( # NAME PROGRAM FOLDER
    program=$2 side=$3 case_number=0
    # shellcheck disable=SC2034 # the cases use it: inputs, seen from a folder of begin
    in=../../../in
    mkdir -p "$side" && cd "$side" || exit 2
    # shellcheck disable=SC1090
    . "$here/cases/$1.sh"
)

status=0 n=0
for name; do
    [ -f "$here/cases/$name.sh" ] || { echo "compare.sh: there is no section $name" >&2; exit 2; }
    section "$name" "$before" "$scratch/before/$name" &
    section "$name" "$after" "$scratch/after/$name" || exit 2
    wait $! || exit 2
    COMPARE_NEW_MEMBERS=$new_members "$python" -B "$here/differences.py" "$name" "$scratch/before/$name" "$scratch/after/$name" "$expected"
    case $? in
        0) rm -rf "$scratch/before/$name" "$scratch/after/$name" ;;
        1) status=1 ;;
        *) exit 2 ;;
    esac
    n=$((n + 1))
done
exit $status
