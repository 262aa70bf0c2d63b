#!/bin/sh
# mpi_ranks.sh PROGRAM PLUGIN MPIEXEC PYTHON - distill by ranks that mpirun starts: the bytes of one process for 1 to 4 ranks,
# one sentence for what is refused, a rank that is killed. Status 77: mpirun starts nothing here.
# mpirun waits for most of its time: the groups of cases run at once, each in a folder and with session files of its own.
set -u
program=$1
mpiexec=$3
python=$4
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
VCOMPRESS_MPI_PATH=$2
LC_ALL=C.UTF-8
TERM=dumb
export VCOMPRESS_MPI_PATH LC_ALL TERM
. "$here/mpi_settings.sh"
mpi_starts "$mpiexec" || exit 77
failed=0
wrong() {
    failed=1
    printf '%s\n' "$*"
    sed 's/^/    out| /' out | head -n 8
    sed 's/^/    err| /' err | head -n 12
}
alone() { timeout 100 "$program" "$@" >out 2>err; }
ranks() { # N ARGUMENT...
    n=$1
    shift
    timeout 100 "$mpiexec" -n "$n" "$program" "$@" >out 2>err
}
says() { # SENTENCE: the only line of ours
    [ "$(grep -c '^vcompress: ' err)" = 1 ] && grep -qF "$1" err || wrong "no single line says: $1"
}

"$python" "$here/../cli/make_npz.py" t.npz a.weight:f4:12x6 a.bias:f4:12 b.weight:f4:4x12 b.bias:f4:4
"$python" "$here/../cli/make_npz.py" s.npz a.weight:f4:12x6:scaled a.bias:f4:12:zeros b.weight:f4:4x12 b.bias:f4:4
"$python" "$here/../cli/make_npz.py" rows.npz x:f4:70x6 y:u1:70:zeros
"$python" "$here/../cli/make_npz.py" bad.npz x:f4:70x6:nan y:u1:70:zeros
printf 'input x [batch, 6]\nlinear a 12\nrelu\nlinear b 4\n' >net.txt
printf 'input x [batch, 6]\nlinear a 20000\nbatchnorm n\nrelu\nlinear b 4\n' >wide.txt
base="distill --graph net.txt --teacher t.npz --alpha 0.5 --batch 5 --accum 4 --force"
run="$base --student s.npz --data rows.npz"
steps() { sed 's/, "host_bytes.*//' "$1"; }

group() { # FUNCTION: runs it in the background; its output and status stay in its folder
    (
        mkdir "$1" && cp ./*.npz ./*.txt "$1" && cd "$1" || exit 1
        TMPDIR=$PWD/sessions
        mkdir sessions
        "$1"
        exit $failed
    ) >"$1.said" 2>&1 &
    groups="$groups $1:$!"
}
groups=

"$python" "$here/../cli/make_npz.py" two.npz a.weight:f4:12x6 a.bias:f4:12 kind.weight:f4:4x12 kind.bias:f4:4 price.weight:f4:3x12 price.bias:f4:3
"$python" "$here/../cli/make_npz.py" both.npz x:f4:70x6 kind:u1:70:%4 price:f4:70x3
printf 'input x [batch, 6]\nlinear a 12\nrelu\nlinear kind 4\noutput kind\nfrom a\nlinear price 3\noutput price\n' >two.txt
"$python" "$here/../cli/make_npz.py" map.npz c.weight:f4:3x1x3x3 c.bias:f4:3
"$python" "$here/../cli/make_npz.py" places.npz x:f4:70x1x4x4 y:u1:70x4x4:%3
printf 'input x [batch, 1, 4, 4]\nconv c 3 kernel=3 pad=1\n' >map.txt

# the same bytes: of a small network with everything on, and of one whose gradient is sent in several pieces
all="$run --steps 30 --eval rows.npz --eval-every 7 --control --clip 1"
wide="$base --student wide.txt --data rows.npz --steps 6"
same_bytes() {
    alone $all --log one.log -o one.npz --json=one.json || wrong "one process: $?"
    alone $wide -o wide.npz || wrong "one process, wide: $?"
    for n in 1 2 3 4; do
        rm -f many.npz many.log
        ranks "$n" $all --log many.log -o many.npz --json=many.json || wrong "$n ranks: $?"
        cmp -s one.npz many.npz || wrong "$n ranks write other bytes"
        [ "$(steps one.log)" = "$(steps many.log)" ] || wrong "$n ranks have other losses"
        grep -q "\"ranks\": $n\b" many.json || wrong "$n ranks are not in the document"
        [ "$n" = 1 ] || grep -q "on each of $n ranks (" out || wrong "$n ranks are not in the report"
        [ "$(grep -c '^student' out)" = 1 ] || wrong "$n ranks do not speak with one voice"
        rm -f many.npz
        ranks "$n" $wide -q -o many.npz || wrong "$n ranks, wide: $?"
        cmp -s wide.npz many.npz || wrong "$n ranks write other bytes of the wide network"
    done
}

# two outputs with a task each, and maps, whose evaluations choose the weights that are written
many="--alpha 0 --batch 5 --accum 3 --steps 12 --eval-every 3 --lr 0.03 --force"
figures() { sed -n '/^ *"eval"/,$p' "$1" | grep -v 'bytes\|seconds\|"ranks"'; }
tasks_and_maps() {
    for of in "two both" "map places"; do
        set -- $of
        with="distill --graph $1.txt --student $1.npz --data $2.npz --eval $2.npz $many"
        alone $with -o one.npz --json=one.json
        [ $? -le 1 ] && [ -s one.json ] || wrong "one process, $1"
        ranks 2 $with -o many.npz --json=many.json
        cmp -s one.npz many.npz || wrong "two ranks write other bytes of $1"
        [ -n "$(figures one.json)" ] && [ "$(figures one.json)" = "$(figures many.json)" ] || wrong "two ranks have other figures of $1"
    done
}

# what is refused is said once
refused() {
    ranks 3 $run --steps 5 --accum 2 -o no.npz && wrong "three ranks of two batches"
    says 'vcompress: 3 ranks share the batches of a step, and --accum makes 2 of them; --accum 3'
    ranks 3 $run --steps 5 --lr 0 -o no.npz && wrong "a rate of 0"
    says 'vcompress: --lr: 0 is not above 0'
    ranks 3 $run --stepz 5 -o no.npz && wrong "an unknown option"
    says "vcompress: unknown option '--stepz'"
    ranks 3 $base --student s.npz --data none.npz --steps 5 -o no.npz && wrong "no data"
    says 'vcompress: none.npz: cannot open'
    ranks 3 $base --student s.npz --data bad.npz --order file --steps 5 -o no.npz && wrong "rows that are no numbers"
    says 'vcompress: rank 0: bad.npz: row 0 of x has a NaN or infinite value'
    ranks 2 $run --steps 5 -o nowhere/no.npz && wrong "an output that cannot be"
    says 'vcompress: rank 0: nowhere/no.npz: '
    VCOMPRESS_MPI_PATH=$folder ranks 2 $run --steps 5 -o no.npz && wrong "two ranks without the plug-in"
    says 'vcompress: this is one of 2 processes that '
    SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 alone $run --steps 5 -o no.npz && wrong "srun without its MPI"
    says 'knows of 1: it is not the one that vcompress_mpi.so was built with, or the option mpi of srun has to be pmix (Open MPI) or pmi2 (MPICH)'
    ranks 2 run --pass 'distill --teacher t.npz --data rows.npz --graph net.txt --steps 5' s.npz -o no.npz && wrong "a recipe on ranks"
    says 'distill in a recipe is work for one process'
    [ ! -e no.npz ] || wrong "something was written"
    # each by itself, because that was asked for
    ranks 2 $run --steps 5 --ranks none -q -o one.npz || wrong "--ranks none"
}

# a rank with other options than the others: numbers, other files, and an option that only one of them has
unequal() { # OPTION... of rank 1
    others_write
    timeout 100 "$mpiexec" -n 2 sh others.sh "$*" "$program" $run --steps 5 -o no.npz >out 2>err
}
other_options() {
    unequal --temperature 3 && wrong "two ranks with two temperatures"
    says 'vcompress: rank 1: --temperature is 3; rank 0 has 2'
    unequal --freeze a.weight --freeze b.bias && wrong "a rank that leaves tensors as they are"
    says 'vcompress: rank 1: --freeze is another one than that of rank 0'
    unequal --data wide.npz && wrong "a rank with other rows"
    says 'vcompress: rank 1: wide.npz: '
    unequal --accum 8 && wrong "a rank with steps of more rows"
    says 'vcompress: rank 1: --accum is 8; rank 0 has 4'
    unequal --temperature 0 && wrong "a rank that fails before it has read anything"
    says 'vcompress: rank 1: --temperature: 0 is not above 0'
    unequal --stepz 5 && wrong "a rank with an unknown option"
    says "vcompress: rank 1: unknown option '--stepz'"
    cat >lacks.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || VCOMPRESS_MPI_PATH=$PWD
exec "$@"
END
    timeout 100 "$mpiexec" -n 2 sh lacks.sh "$program" $run --steps 5 -o no.npz >out 2>err && wrong "a rank without the plug-in"
    says 'vcompress: rank 1: this is one of 2 processes that '
}

# rank 0 begins late, as on a machine with much to do, and still speaks for all
begins_late() {
    cat >late.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && sleep 1.5
exec "$@"
END
    late() { timeout 100 "$mpiexec" -n 3 sh late.sh "$program" "$@" >out 2>err; }
    late $run --stepz 5 && wrong "an unknown option, rank 0 late"
    says "vcompress: unknown option '--stepz'"
    VCOMPRESS_MPI_PATH=$folder late $run --steps 5 -o no.npz && wrong "no plug-in, rank 0 late"
    says 'vcompress: this is one of 3 processes that '
    late run --pass 'distill --teacher t.npz --data rows.npz --graph net.txt --steps 5' s.npz -o no.npz && wrong "a recipe, rank 0 late"
    says 'distill in a recipe is work for one process'
    [ ! -e no.npz ] || wrong "something was written"
}

# a rank is killed: no output, and the last checkpoint goes on with any number of ranks to the bytes of one process
killed() {
    cat >started.sh <<'END'
echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
exec "$@"
END
    rm -f no.npz
    timeout 100 "$mpiexec" -n 3 sh started.sh "$program" $run --steps 10000000 --checkpoint ck.npz --checkpoint-every 10 -o no.npz >out 2>err &
    job=$!
    waited=0
    while [ ! -s ck.npz ] && [ $waited -lt 300 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    kill -KILL "$(cat pid.1)"
    wait $job && wrong "a run whose rank was killed"
    [ ! -e no.npz ] || wrong "a run whose rank was killed wrote its output"
    # the first of its counts is that of the steps
    n_steps=$("$python" -c 'import struct, zipfile; print(struct.unpack("<Q", zipfile.ZipFile("ck.npz").read("counts.npy")[-64:-56])[0] + 20)')
    alone $run --steps "$n_steps" -o one.npz || wrong "one process: $?"
    ranks 2 $run --steps "$n_steps" --resume ck.npz -o many.npz || wrong "resumed by two ranks: $?"
    grep -q "resumed after" out || wrong "not resumed"
    cmp -s one.npz many.npz || wrong "resumed by two ranks: other bytes"
    echo "$n_steps steps"
}

for name in same_bytes tasks_and_maps refused other_options begins_late killed; do
    group $name
done
for one in $groups; do
    wait "${one#*:}" || failed=1
    cat "${one%:*}.said"
done
[ $failed = 0 ] && echo "all the same"
exit $failed
