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
for script in check_includes.sh check_style.sh check_folders.sh; do
    if ! sh "$here/$script" "$dir/tree" >"$dir/log"; then
        echo "the tree itself fails $script:"
        cat "$dir/log"
        exit 1
    fi
done

for edge in "core/base/pool.c formats/npz/npy.h" "kernels/cpu/kernel_ref.c core/chain/pass.h" \
    "quantize/schemes/int8.c formats/npz/npy.h" "quantize/schemes/int8.c zlib.h" "formats/npz/npy.c nettle/sha2.h" "formats/npz/npy.c kernels/kernels.h" \
    "engine/engine.c distill/data/network.h" "engine/engine.c passes/select.h" "tools/main.c core/base/ctx.h" "examples/shrink.c core/base/ctx.h" "include/vcompress/model.h core/base/ctx.h"; do
    file=${edge% *}
    echo "#include \"${edge#* }\"" >>"$dir/tree/$file"
    expect_failure "$edge" check_includes.sh
    cp "$root/$file" "$dir/tree/$file" 2>/dev/null || rm -f "$dir/tree/$file"
done

echo "/* core may say prune here */ void vc_prune_all(void);" >>"$dir/tree/core/chain/item.c"
expect_failure "core names a pass" check_includes.sh
expect_message "core/ knows no pass"
cp "$root/core/chain/item.c" "$dir/tree/core/chain/item.c"

# Rooms: FILE TARGET, and what the failure has to say.
while read -r file target words; do
    [ -f "$dir/tree/$file" ] && [ -f "$dir/tree/$target" ] || { echo "$file or $target is gone"; failed=1; }
    echo "#include \"$target\"" >>"$dir/tree/$file"
    expect_failure "$file $target" check_includes.sh
    expect_message "$words"
    cp "$root/$file" "$dir/tree/$file"
done <<'END'
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

echo '#include <vcompress/graph.h>' >>"$dir/tree/include/vcompress/job.h"
expect_failure "a stable header with an experimental one" check_includes.sh
expect_message "a stable header may not include an experimental one"
cp "$root/include/vcompress/job.h" "$dir/tree/include/vcompress/job.h"

cp "$root/core/base/pool.c" "$dir/tree/formats/pool.c"
expect_failure "two files of one name" check_includes.sh
rm "$dir/tree/formats/pool.c"

for flaw in '\t/* tab */' '/* blank at the end */ ' '/* n\303\244ch */' '/* ends without newline */\c' \
    '/* /home/somebody */' '"leave --force out"'; do
    # shellcheck disable=SC2059
    printf "${flaw%\\c}" >>"$dir/tree/core/base/pool.c"
    case $flaw in *'\c') ;; *) echo >>"$dir/tree/core/base/pool.c" ;; esac
    expect_failure "$flaw" check_style.sh
    cp "$root/core/base/pool.c" "$dir/tree/core/base/pool.c"
done
echo '"choose another --axis"' >>"$dir/tree/quantize/quantize.c"
expect_failure "an option in quantize/ that is no recipe" check_style.sh
cp "$root/quantize/quantize.c" "$dir/tree/quantize/quantize.c"
yes "/* long */" | head -n 801 >"$dir/tree/core/base/long.c"
expect_failure "801 lines" check_style.sh
rm "$dir/tree/core/base/long.c"
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    : >"$dir/tree/prune/more_$number.h"
done
expect_failure "a folder with more than 30 files" check_folders.sh
expect_message "prune has"
rm "$dir/tree/prune"/more_*.h
mv "$dir/tree/prune/README.md" "$dir/prune.md"
expect_failure "a room without a README" check_style.sh
mv "$dir/prune.md" "$dir/tree/prune/README.md"
echo '[nothing](docs/nothing.md)' >>"$dir/tree/README.md"
expect_failure "a link that leads nowhere" check_style.sh

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
