#!/bin/sh
# check_checks.sh ROOT [CC OBJECTS NM] - breaks a copy of the tree in one way after the other and wants the check that is meant for it
# to fail, and to pass before.
set -eu
root=$1
here=$root/tests/structure
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

copy() { # a fresh copy of the sources
    rm -rf "$dir/tree"
    mkdir "$dir/tree"
    (cd "$root" && tar cf - --exclude=.git --exclude='./build' --exclude='./build-*' --exclude='*.npz' .) | (cd "$dir/tree" && tar xf -)
}

expect_failure() { # WHAT SCRIPT
    if sh "$here/$2" "$dir/tree" >"$dir/log" 2>&1; then
        echo "$2 does not notice: $1"
        failed=1
    fi
}

expect_message() { # WORDS: of the check that failed last
    if ! grep -qF "$1" "$dir/log"; then
        echo "the failure does not say '$1':"
        cat "$dir/log"
        failed=1
    fi
}

copy
for script in check_includes.sh check_style.sh; do
    if ! sh "$here/$script" "$dir/tree" >"$dir/log"; then
        echo "the tree itself fails $script:"
        cat "$dir/log"
        exit 1
    fi
done

# Includes that no file may have, all at once; the check names each of them: FILE TARGET, and what it says, the rooms' rules last.
cat >"$dir/edges" <<'END'
core/base/pool.c formats/npz/npy.h core/ may not
kernels/cpu/kernel_ref.c core/chain/pass.h kernels/ may not
quantize/schemes/int8.c formats/npz/npy.h quantize/ may not
quantize/schemes/int8.c zlib.h only formats/ may
formats/npz/npy.c nettle/sha2.h only passes/ may
formats/npz/npy.c kernels/kernels.h formats/ may not
engine/engine.c distill/data/network.h engine/ may not
engine/engine.c passes/select.h engine/ may not
tools/main.c core/base/ctx.h tools/ may not
examples/shrink.c core/base/ctx.h examples/ may not
include/vcompress/model.h core/base/ctx.h include/ may not
formats/npz/npz_read.c formats/torch/torch.h formats/npz may not include formats/torch: a format does not include another format's headers
formats/torch/torch_data.c formats/npz/npy_data.h formats/torch may not include formats/npz: a format does not
formats/dialects/plain.c formats/gguf/gguf.h formats/dialects may not include formats/gguf: a format does not
formats/huggingface/weight_index.c formats/safetensors/safetensors.h formats/huggingface may not include formats/safetensors: a format
formats/gguf/gguf_read.c formats/huggingface/config/hf_config.h formats/gguf may not include formats/huggingface
formats/io/infile.c formats/huggingface/weight_index.h formats/io may not include formats/huggingface
formats/io/infile.c formats/zip/codec.h formats/io may not include formats/zip: all rooms stand on io
formats/zip/zip_read.c formats/json/json_walk.h formats/zip may not include formats/json: it stands on io alone
formats/json/json_walk.c formats/dialects/manifest/manifest.h formats/json may not include formats/dialects
formats/io/infile.c formats/formats.h formats/io may not include formats/*.h
formats/formats.c formats/npz/npy_data.h is inside a room
core/base/pool.c core/model/source.h core/base may not include core/model
core/base/pool.c core/text/text.h core/base may not include core/text
core/values/tile.c core/text/text.h core/values may not include core/text
core/model/model.c core/chain/pass.h core/model may not include core/chain
core/chain/item.c core/run/executor.h core/chain may not include core/run
core/run/executor.c core/job/totals.h core/run may not include core/job
core/model/model.c core/run/sink.h core/model may not include core/run
distill/math/step_table.c distill/data/rows.h distill/math/ may not include what stands on it
distill/data/rows.c distill/student.h distill/data may not include distill/
distill/update/masks.c distill/loss/match.h distill/update may not include distill/loss
distill/loss/match.c distill/run/trainer.h distill/loss may not include distill/run
graph/base/dims.c graph/ops/ops.h graph/base/ may not include graph/ops: operators and builders stand on it
graph/ops/infer.c graph/builder/builder.h graph/ops/ may not include graph/builder: builders
graph/couple/couple_axes.c graph/builder/builder.h graph/couple/ may not include graph/builder
tools/options/words.c tools/app.h tools/options may not include tools/*.h
tools/app.c tools/show/group.h tools/* may not include tools/show
tools/show/group.c tools/convert/convert.h tools/show may not include tools/convert
END
while read -r file target words; do
    [ -f "$dir/tree/$file" ] && { [ -f "$dir/tree/$target" ] || [ "${words#only}" != "$words" ]; } || { echo "$file or $target is gone"; failed=1; }
    echo "#include \"$target\"" >>"$dir/tree/$file"
done <"$dir/edges"
echo '#include <vcompress/graph.h>' >>"$dir/tree/include/vcompress/job.h"
expect_failure "includes" check_includes.sh
while read -r file target words; do
    expect_message "$file includes \"$target\": $words"
done <"$dir/edges"
expect_message "include/vcompress/job.h includes <vcompress/graph.h>: a stable header may not include an experimental one"
copy

echo "/* core may say prune here */ void vc_prune_all(void);" >>"$dir/tree/core/chain/item.c"
expect_failure "core names a pass" check_includes.sh
expect_message "core/ knows no pass"
cp "$root/core/chain/item.c" "$dir/tree/core/chain/item.c"

cp "$root/core/base/pool.c" "$dir/tree/formats/pool.c"
expect_failure "two files of one name" check_includes.sh
rm "$dir/tree/formats/pool.c"

# Flaws of texts, all at once, and what the check says of each.
plant() { echo "$2" >>"$dir/tree/$1"; } # FILE LINE
plant core/base/pool.c "$(printf '\t/* tab */')"
plant core/base/ctx.c '/* blank at the end */ '
plant core/model/model.c "$(printf '/* n\303\244ch */')"
printf '/* ends without newline */' >>"$dir/tree/core/chain/item.c"
plant core/run/executor.c '/* /home/somebody */'
plant core/job/job.c '"leave --force out"'
plant quantize/quantize.c '"choose another --axis"' # no recipe
plant prune/lamp.c "$(printf ' *     w f32 %s a picture of one\n * line */' "$(yes = | head -n 90 | tr -d '\n')")"
plant prune/magnitude.c "$(printf 'struct s {\n    const char\n        *name; /* a long comment */\n};')"
rm "$dir/tree/prune/README.md"
plant README.md '[nothing](docs/nothing.md)'
expect_failure "flaws of texts" check_style.sh
while read -r words; do
    expect_message "$words"
done <<'END'
tab: core/base/pool.c:
blank at the end of a line: core/base/ctx.c:
not ASCII: core/model/model.c:
no newline at the end: core/chain/item.c
path of one machine: core/run/executor.c:
option of the command: core/job/job.c:
option of the command: quantize/quantize.c:
torn picture: prune/lamp.c:
torn member: prune/magnitude.c:
no README.md: prune
link that leads nowhere: README.md: docs/nothing.md
END

# What the linker sees: an object that calls up, and a declaration that is not at home.
if [ -n "${4:-}" ]; then
    cc=$2 objects=$3 nm=$4
    expect_links() { # WHAT WORDS: the check fails and says them
        if sh "$here/check_links.sh" "$dir/tree" "$dir/objects" "$nm" >"$dir/log" 2>&1; then
            echo "check_links.sh does not notice: $1"
            failed=1
        fi
        expect_message "$2"
    }
    mkdir -p "$dir/vcompress.dir/core/base"
    echo 'void vc_model_close(void *); void vc_calls_up(void); void vc_calls_up(void) { vc_model_close(0); }' >"$dir/up.c"
    "$cc" -c -o "$dir/vcompress.dir/core/base/up.c.o" "$dir/up.c"
    { cat "$objects"; echo "$dir/vcompress.dir/core/base/up.c.o"; } >"$dir/objects"
    expect_links "core/base calls core/model" "core/base/ calls core/model/: vc_model_close (in core/base/up.c)"
    cp "$objects" "$dir/objects"
    echo 'enum vc_status vc_job_run(struct vc_ctx *ctx, struct vc_job *job);' >>"$dir/tree/core/base/pool.h"
    expect_links "a declaration in another room" "core/base/pool.h declares vc_job_run, which core/job/job.c defines"
fi
exit "$failed"
