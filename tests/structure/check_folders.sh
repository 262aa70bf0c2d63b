#!/bin/sh
# check_folders.sh ROOT - no source folder has more than 30 files, README.md and CMakeLists.txt included: who opens a folder sees
# what is in it. A folder that has grown beyond is cut into rooms (docs/architecture.md, section 2). tests/ and bench/ mirror the
# tree and are not counted.
set -eu
cd "$1"
limit=30
tops="core formats kernels graph passes quantize prune engine distill facade measure memory report shrink tools include cmake examples"
# shellcheck disable=SC2086
folders=$(find $tops -type d ! -name __pycache__ | sort)
failed=0
n=0
for folder in $folders; do
    files=$(find "$folder" -maxdepth 1 -type f ! -name '.*' | wc -l)
    n=$((n + 1))
    if [ "$files" -gt "$limit" ]; then
        echo "$folder has $files files: more than $limit"
        failed=1
    fi
done
if [ "$n" -lt 30 ]; then
    echo "only $n folders found: is this the root of the tree?"
    failed=1
fi
[ "$failed" != 0 ] || echo "$n folders, none with more than $limit files"
exit "$failed"
