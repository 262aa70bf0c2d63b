#!/bin/sh
# ranks_on_cuda.sh - distill by ranks that have a CUDA device each (devices, or the emulated card through
# VCOMPRESS_BACKEND_PATH, with VC_EMU_DEVICES of them): with sums on the hosts the bytes of one process with one device,
# whatever the number of ranks; with those of NCCL weights that are as near as rounding lets them be; sentences where
# there are fewer devices than ranks, no NCCL, or a rank that ends. Prints a line per comparison; status 1 if any fails,
# 77 where mpirun starts nothing.
#
#     ranks_on_cuda.sh VCOMPRESS DEVICES PLUGIN MPIEXEC
set -eu
program=$1
devices=$2
VCOMPRESS_MPI_PATH=$3
mpiexec=$4
here=$(cd "$(dirname "$0")" && pwd)
export VCOMPRESS_MPI_PATH
. "$here/../distill/mpi_settings.sh"
folder=$(mktemp -d "${TMPDIR:-/tmp}/vcompress-ranks.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
other=
unset CUDA_VISIBLE_DEVICES
mpi_starts "$mpiexec" || exit 77
others_write

say() { # SAYS CONDITION-STATUS
    if [ "$2" -eq 0 ]; then
        echo "passed: $1"
    else
        echo "FAILED: $1"
        cat ./*.err
        failed=1
    fi
}

# ranks N OUT OPTION...: N processes of one run; what they came to, their words in OUT.out and OUT.err. $other: options of
# all but rank 0
ranks() {
    n=$1 name=$2
    shift 2
    timeout 100 "$mpiexec" -n "$n" sh others.sh "$other" "$program" distill "$@" -o "$name.npz" --json="$name.json" \
        >"$name.out" 2>"$name.err"
}

# The first number of that name in many.json.
figure() {
    sed -n "s/^.*\"$1\": \([0-9]*\).*\$/\1/p" many.json | head -n 1
}

# Rows of six bytes and their labels, as idx files; seven batches an epoch: four in its first step, three in its second
# one, so that a rank may have none. (A bias in front of a normalization has gradients of nothing but rounding.)
{
    printf '\000\000\010\002\000\000\000\016\000\000\000\006'
    printf 'Fourteen rows of six bytes, for a network with two layers and a normalization of batches.'
} | head -c 96 >rows-idx2-ubyte
printf '\000\000\010\001\000\000\000\016\000\001\002\000\001\001\002\000\002\002\001\000\000\001' >labels-idx1-ubyte
printf 'input x [batch, 6]\nlinear a 24\nbatchnorm n\nrelu\nlinear b 3\n' >net.txt
set -- --device cuda --alpha 0 --student net.txt --data rows-idx2-ubyte --labels labels-idx1-ubyte --scale 0.01 --batch 2 \
    --accum 4 --steps 9 --eval rows-idx2-ubyte --eval-labels labels-idx1-ubyte --eval-every 2 --freeze a.bias --force

"$program" distill "$@" --ranks none --json=one.json -o one.npz >one.out 2>one.err || say "one process" 1
n=2
while [ "$n" -le "$devices" ] && [ "$n" -le 3 ]; do
    outcome=0
    ranks "$n" many "$@" --all-reduce host && cmp one.npz many.npz && grep -q "\"ranks\": $n\b" many.json || outcome=1
    [ "$(figure device_planned)" = "$(figure device_peak)" ] && [ "$(figure planned)" = "$(figure peak)" ] || outcome=1
    say "$n ranks with a device each: the bytes of one process, memory as planned" "$outcome"
    n=$((n + 1))
done
# What a launcher does that gives each process one device: here both have the same.
outcome=0
CUDA_VISIBLE_DEVICES=0 VC_EMU_DEVICES=1
export CUDA_VISIBLE_DEVICES VC_EMU_DEVICES
ranks 2 eight "$@" --optimizer adam8bit &&
    "$program" distill "$@" --ranks none --optimizer adam8bit -o eight_one.npz >eight_one.out 2>eight_one.err &&
    cmp eight_one.npz eight.npz || outcome=1
unset CUDA_VISIBLE_DEVICES
VC_EMU_DEVICES=$devices
say "2 ranks that see one device, with states of 8 bits" "$outcome"

# An emulated card has an NCCL where VC_EMU_NCCL says so; a system has one or not.
VC_EMU_NCCL=1
export VC_EMU_NCCL
# NCCL refuses ranks with the same device, so auto does without it.
outcome=0
CUDA_VISIBLE_DEVICES=0 VC_EMU_DEVICES=1
export CUDA_VISIBLE_DEVICES
ranks 2 same "$@" && grep -q '"all_reduce": "host"' same.json && cmp one.npz same.npz || outcome=1
if ranks 2 never "$@" --all-reduce nccl; then
    outcome=1
fi
grep -q 'ranks 0 and 1 have the same CUDA device, \|libnccl.so.2 cannot be loaded' never.err || outcome=1
unset CUDA_VISIBLE_DEVICES
VC_EMU_DEVICES=$devices
say "2 ranks that see one device, where there is an NCCL" "$outcome"
n=2
while [ "$n" -le "$devices" ] && [ "$n" -le 3 ]; do
    outcome=0
    ranks "$n" many "$@" --all-reduce auto || outcome=1
    if [ "$outcome" -eq 0 ] && [ -z "${VC_EMU_DEVICES:-}" ] && grep -q '"all_reduce": "host"' many.json; then
        echo "skipped: NCCL, which this system has not"
        break
    fi
    "$program" diff -q --min-sqnr 90 one.npz many.npz && ! cmp -s one.npz many.npz || outcome=1
    [ "$(figure device_planned)" = "$(figure device_peak)" ] && [ "$(figure planned)" = "$(figure peak)" ] || outcome=1
    grep -q "on each of $n ranks (.*; gradients by NCCL " many.out || outcome=1
    say "$n ranks that add by NCCL: one process but for rounding, memory as planned" "$outcome"
    n=$((n + 1))
done
if [ -n "${VC_EMU_DEVICES:-}" ] && [ "$devices" -ge 2 ]; then
    for what in none init dies; do
        outcome=0
        VC_EMU_NCCL=$what
        if ranks 2 never "$@" --all-reduce nccl --checkpoint "$what.ckpt"; then
            outcome=1
        fi
        case $what in
        none) words='NCCL, which adds up the gradients of the ranks: libnccl.so.2 cannot be loaded (--all-reduce host does without it)$' ;;
        init) words='rank 1: NCCL, which adds up the gradients of the ranks: ncclCommInitRank: unhandled system error (--all-reduce host does without it)$' ;;
        *) words='\(rank 0: another rank does not answer: \|interrupted after [0-9]* steps\)' ;; # mpirun ends rank 0, or NCCL does
        esac
        # The prterun of Open MPI 5 may kill rank 0 before rank 0 has said anything.
        { grep -q "^vcompress: .*$words" never.err || { [ $what = dies ] && grep -q '^prterun detected' never.err; }; } &&
            [ ! -e never.npz ] || outcome=1
        say "an NCCL that is not what it should be: $what" "$outcome"
    done
    outcome=0
    VC_EMU_NCCL=old
    ranks 2 old "$@" --all-reduce nccl && "$program" diff -q --min-sqnr 90 one.npz old.npz || outcome=1
    say "an NCCL whose calls wait" "$outcome"
    outcome=0
    VC_EMU_NCCL=none
    ranks 2 never "$@" && grep -q '"all_reduce": "host"' never.json && cmp one.npz never.npz || outcome=1
    say "auto without NCCL: the hosts" "$outcome"
fi
unset VC_EMU_NCCL

# Rank 1 says --device itself, behind what all say.
outcome=0
other='--device cpu'
if ranks 2 mixed "$@"; then
    outcome=1
fi
other=
grep -q '^vcompress: rank 0 computes on a CUDA device, rank 1 on the CPU: --device has to say the same' mixed.err &&
    [ "$(grep -c '^vcompress: ' mixed.err)" = 1 ] || outcome=1
say "ranks on a device and on the CPU" "$outcome"

outcome=0
if ranks $((devices + 1)) few "$@"; then
    outcome=1
fi
grep -q "^vcompress: rank $devices: this is number $((devices + 1)) of the ranks of its machine, which has $devices CUDA device" few.err &&
    [ "$(grep -c '^vcompress: ' few.err)" = 1 ] || outcome=1
say "more ranks than devices" "$outcome"
exit $failed
