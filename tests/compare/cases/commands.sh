# The cases of tests/cli, run for what they do instead of for what they expect; help, completions, words that are wrong.
# shellcheck shell=sh disable=SC2154,SC2317
for words in '' --help --version help 'help quantize' 'help nothing' 'completion bash' 'completion zsh' 'completion fish' \
    'completion tcsh' selftest devices 'devices --json' 'quantize --help=all' 'dequantize --help=all' 'convert --help' \
    'index --help' 'inspect --help' 'diff --help' 'verify --help' 'selftest --help' 'devices --help' 'completion --help'; do
    # shellcheck disable=SC2086
    one $words
done

record() { # keeps what a command of a case left
    step=$((step + 1))
    printf '%s\n' "$last" >cmd.$step
    cp out out.$step
    cp err err.$step
    echo "$rc" >rc.$step
}
run_a_case() (
    make() { "$python" "$root/tests/cli/make_npz.py" "$@"; }
    run() { run_from /dev/null "$@"; }
    run_from() {
        input=$1
        shift
        last="vcompress $*"
        timeout -k 5 60 "$program" "$@" <"$input" >out 2>err
        rc=$?
        record
    }
    exits() { :; }
    # shellcheck disable=SC2120
    out_is() { cat >/dev/null; }
    err_is() { cat >/dev/null; }
    valid() { :; }
    has() { :; }
    holds() { "$@" || :; }
    for name in out_like err_like out_unlike err_unlike one_error no_out no_err golden files same differ; do
        eval "$name() { :; }"
    done
    rc=0
    # shellcheck disable=SC1090
    . "$1"
) >/dev/null 2>&1
for path in "$root"/tests/cli/cases/*.test; do
    case $path in */signals.test | */help.test | */selftest.test) continue ;; esac # take long, or are above
    begin
    run_a_case "$path"
done
