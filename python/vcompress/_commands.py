"""Every command as a function. Made by make_commands.py from the tables of options: not edited by hand.

threads, max_memory and device say what a call may use; progress=False shows no bar, and a function is called with a Progress."""
from __future__ import annotations

from typing import Literal, Mapping, Optional, Sequence, Union

from ._arrays import Weights
from ._call import Report
from ._run import Compressed, File, Input, Path, Show, Values, ask, in_memory, make, write

__all__ = ["shrink", "quantize", "prune", "run", "dequantize", "merge", "convert", "distill", "logits", "calibrate", "index", "inspect", "graph", "evaluate",
        "sensitivity", "verify", "estimate", "fit", "plan", "diff", "gpus", "devices", "selftest", "compress"]


def shrink(input: Input, output: Optional[Path] = None, *, progress: Show = None, bytes: Optional[Union[int, str]] = None, ratio: Optional[float] = None,
        fit: Optional[str] = None, memory: Optional[Union[int, str]] = None, native: bool = False, max_loss: Optional[Values] = None,
        within: Optional[Values] = None, gpus_file: Optional[Path] = None, graph: Optional[Path] = None, data: Optional[File] = None,
        array: Optional[Values] = None, labels: Optional[File] = None, ignore_label: Optional[int] = None, rows: Optional[Values] = None,
        part: Optional[Values] = None, part_seed: Optional[int] = None, length: Optional[Values] = None, token_bits: Optional[int] = None,
        scale: Optional[float] = None, mean: Optional[str] = None, std: Optional[str] = None, eval: Optional[File] = None, eval_labels: Optional[File] = None,
        eval_array: Optional[Values] = None, min_accuracy: Optional[float] = None, min_agreement: Optional[float] = None, min_f1: Optional[float] = None,
        min_r2: Optional[float] = None, min_cosine: Optional[float] = None, min_iou: Optional[float] = None, max_cross_entropy: Optional[float] = None,
        max_mae: Optional[float] = None, max_mse: Optional[float] = None,
        task: Optional[Literal["auto", "classes", "tokens", "labels", "regression", "embeddings", "maps", "spans"]] = None,
        loss: Optional[Literal["kd", "mse", "cosine", "auto", "reverse", "js", "bce", "huber"]] = None, type: Optional[Values] = None,
        type_file: Optional[Path] = None, time: Optional[Values] = None, steps: Optional[int] = None, seed: Optional[int] = None, keep_going: bool = False,
        resume: bool = False, recipe: Optional[Path] = None, force: bool = False,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        drop: Optional[Values] = None, dry_run: bool = False, known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None,
        max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """Make a model as small as a limit asks, and prove the result.

    vcompress shrink (--fit GPU | --memory SIZE | --bytes SIZE | --ratio X | --max-loss SHARE) [--data FILE] [options] MODEL [-o OUTPUT]

    bytes (SIZE): the output has at most SIZE: 100MiB
    ratio (X): the output is X times smaller than the input
    fit (GPU): the output fits this GPU in inference (vcompress gpus lists names), or auto, the GPU at hand
    memory (SIZE): the output fits a device of which a program sees SIZE
    native: --fit, --memory: for a runtime that keeps codes as codes, as llama.cpp and vLLM do (default: the usual loader of the output, which may decode them)
    max_loss (SHARE): --data: the figure of the task falls by at most SHARE: accuracy (classes, tokens), IoU (maps), F1 (labels), R2 (regression), cosine (embeddings)
    within (METRIC:X): --data: as --max-loss, of another figure and in its own unit: mae:0.5, where the mean absolute error rises by at most 0.5 (accuracy, agreement, cross-entropy, f1, iou, r2, mae, mse, cosine, exact-match)
    gpus_file (FILE): --fit: more GPUs (see vcompress gpus --csv)
    graph (FILE): the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each model)
    data (FILE): rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, idx.gz, ...)
    array (NAME=ARRAY): --data: take this input, or y, or mask, from this array (default: the array of the same name; a single array is the single input)
    labels (FILE): --data: another file, whose single array is y
    ignore_label (N): --data: rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding
    rows (N): --data: the first N rows only
    part (FROM-TO): --data: of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap have no row in common
    part_seed (N): --part: seed of the order (default 0)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    eval (FILE): --data: rows to prove, which steer nothing (default: 20 % of --data; 60 % train, 20 % choose)
    eval_labels (FILE): --eval: another file, whose single array is y of --eval
    eval_array (NAME=ARRAY): --eval: the same as --array (default: as --array)
    min_accuracy (SHARE): gate: exit 1 when the output answers fewer of the labelled rows rightly, such as 0.95
    min_agreement (SHARE): gate: exit 1 if it agrees with the teacher on fewer rows, such as 0.95
    min_f1 (X): gate: ... if F1 of labels, or of spans, is lower, such as 0.8
    min_r2 (X): gate: ... if R2 of a regression is lower, such as 0.9
    min_cosine (X): gate: ... if the mean cosine of embeddings is lower
    min_iou (X): gate: ... if the mean IoU of maps is lower
    max_cross_entropy (X): gate: ... if the cross-entropy with y is higher
    max_mae (X): gate: ... if the mean absolute error of values is higher, in their unit
    max_mse (X): gate: ... if their mean squared error is higher
    task (auto|classes|tokens|labels|regression|embeddings|maps|spans): --data: what the network is for: one class for each row (classes) or for each position of it (tokens), several of many (labels: y has 0 or 1 for each), numbers (regression), directions (embeddings), one class for each place (maps: [rows, classes, height, width]), start and end of a part (spans)
    loss (kd|mse|cosine|auto|reverse|js|bce|huber): --data: what answers are compared by, with the teacher's, and with y if it has floats: divergence of classes, from the teacher (kd), from the student (reverse) or Jensen-Shannon's (js)
    type (GLOB=SCHEME): the scheme of the tensors whose names match, of every candidate, as in vcompress quantize: one of its --scheme, of GGUF files a block type (q6_k), or keep
    type_file (FILE): the same from the lines of a file, behind those of --type
    time (TIME): take the best that was found in TIME, which ends what is under way
    steps (N): --data: steps of training the winner (default 2400)
    seed (N): --data: of the parts of the rows, and of training (default 0)
    keep_going: write the nearest file although a limit is missed
    resume: go on where an interrupted search of the same model, graph, rows and options stopped, by the journal beside the output
    recipe (FILE): text file for the passes that were chosen, with which vcompress run makes the same bytes (default: the output's name and .recipe)
    force: replace an existing file (never the input), and an older journal
    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): layout of codes, as in vcompress quantize
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights, as in vcompress quantize (default: they are kept)
    dry_run: count the candidates from headers
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("shrink", locals())


def quantize(input: Input, output: Optional[Path] = None, *, progress: Show = None, int8: bool = False, int4: bool = False, int3: bool = False,
        int2: bool = False, fp8: bool = False, nvfp4: bool = False, nf4: bool = False, fp4: bool = False, mxfp4: bool = False, mxfp8: bool = False,
        fp16: bool = False, bf16: bool = False, scheme: Optional[Values] = None, gguf: Optional[str] = None, aim_sqnr: Optional[float] = None,
        aim_bytes: Optional[Union[int, str]] = None, aim_bpw: Optional[float] = None, aim_loss: Optional[Values] = None, type: Optional[Values] = None,
        type_file: Optional[Path] = None, granularity: Optional[Values] = None, axis: Optional[int] = None, symmetric: bool = False, asymmetric: bool = False,
        double_quant: bool = False,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        encoder: Optional[Literal["best", "llama"]] = None, pure: bool = False, calibration: Optional[Path] = None, calibration_anyway: bool = False,
        activations: Optional[Literal["none", "static"]] = None, ranges: Optional[Values] = None, saturation: Optional[Literal["auto", "off", "all"]] = None,
        smooth: Optional[float] = None, sensitivity: Optional[Path] = None, rest: Optional[Literal["keep", "fp16", "bf16"]] = None,
        min_elements: Optional[int] = None, min_row: Optional[int] = None, nonfinite: Optional[Literal["error", "keep", "zero"]] = None,
        overflow: Optional[Literal["error", "inf", "sat"]] = None, requantize: bool = False, include: Optional[Values] = None, exclude: Optional[Values] = None,
        output_dir: Optional[Path] = None, format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None,
        emit: Optional[Values] = None, force: bool = False, force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False,
        remote: bool = False, metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, graph: Optional[Path] = None, min_sqnr: Optional[float] = None,
        max_sqnr_drop: Optional[float] = None, gates: Optional[Path] = None, known: Optional[Values] = None, device: Optional[str] = None,
        threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None,
        markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Store weights in fewer bits.

    vcompress quantize (--int8 | --int4 | --fp8 | --nvfp4 | --nf4 | ... | --fp16 | --bf16 | --gguf TYPE | --aim-sqnr DB | --aim-bytes SIZE | ...) [options] INPUT... [-o OUTPUT | -d DIR]

    int8: codes of 8 bits and f32 scales: a quarter of f32
    int4: codes of 4 bits and a scale per 128 of them: an eighth of f32
    int3: the same with codes of 3 bits: a tenth of f32
    int2: the same with codes of 2 bits: a fifteenth of f32
    fp8: floats of 8 bits (E4M3) and a scale per row: a quarter of f32
    nvfp4: floats of 4 bits (E2M1), an E4M3 scale per 16 and a scale per tensor, the same for layers that runtimes join: a seventh of f32
    nf4: the 16 values of QLoRA's NF4 and a scale per 64: a seventh of f32
    fp4: the same with bitsandbytes' FP4
    mxfp4: floats of 4 bits (E2M1) and a power of two per 32: less than a seventh of f32
    mxfp8: floats of 8 bits (E4M3) and a power of two per 32
    fp16: IEEE half precision: half of f32, values up to 65504
    bf16: bfloat16: half of f32, the range of f32, 8 bits of precision
    scheme (NAME): a scheme by its name, perhaps with its granularity, int3/group:64: those above, int5, int6, ternary, f8_e4m3, f8_e5m2 (ternary: codes -1, 0 and 1 in 2 bits; f8_e4m3, f8_e5m2: floats of 8 bits without scales, as single files of pictures have them)
    gguf (TYPE): GGUF's block types, chosen for each tensor as llama-quantize does, such as Q4_K_M or Q8_0
    aim_sqnr (DB): for every tensor the smallest of int2 to int6, int8 (a scale per tensor, channel or group), fp16 and bf16 with this SQNR, else unchanged
    aim_bytes (SIZE): the same types for every tensor, chosen for the least sum of squared errors in a file of at most SIZE
    aim_bpw (BITS): the same for a file of at most BITS bits for each weight, whatever it has beside them: 4.5
    aim_loss (X%): the smallest file whose tensors, each by itself, change the outputs by less than X% together (root of the sum of squares), by the figures of --sensitivity
    type (GLOB=SCHEME): another scheme for the tensors whose names match: one of --scheme, with --gguf a block type (q6_k), or keep
    type_file (FILE): the same from the lines of a file, behind those of --type
    granularity (tensor|channel|group:N|block:N): of codes: one scale per tensor (int8 only), per index of the axis, or per N elements of an index, or of fp8 per block of N rows and N columns (default channel; int2 to int6 and ternary group:128, nf4 and fp4 group:64; GGUF has group:32 only)
    axis (N): int8: the axis of the channels, negative from the end (default: the output channels: the last axis of kernels of Flax and Keras, axis 0 if neither format nor name is known)
    symmetric: codes around zero, without zero points (default)
    asymmetric: int8 and int2 to int6: codes with a zero point per scale
    double_quant: nf4, fp4 for bitsandbytes: scales become codes of a byte, with a scale for 256 of them
    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): codes in safetensors: the programs that load the output. plain: codes and scales for everything
    encoder (best|llama): --gguf: best has the lowest error that the search finds, llama the bytes that llama-quantize writes (default best)
    pure: --gguf: TYPE's base type for every tensor that gets blocks, without the mixture's exceptions
    calibration (FILE): --gguf, codes of 2 to 6 bits and of floats, and --activations: what the layers get to see, a file of vcompress calibrate or llama-imatrix
    calibration_anyway: also statistics that were measured with weights of another training
    activations (none|static): ONNX, --int8: static also makes codes (u8) of what Conv, Gemm and MatMul read and make, by the ranges in --calibration, so that onnxruntime computes with codes
    ranges (min-max|error|entropy|percentile:P): --activations static: in ONNX files, the range of a value's codes: all that was seen, the part with the least squared error, that whose histogram 128 levels keep best (as TensorRT), or that of P % of its elements, such as 99.99 (default min-max)
    saturation (auto|off|all): --activations static: in ONNX files, smaller codes, down to 7 bits, for layers with which processors without VNNI overflow 16 bits: those that do so for the calibration's rows, none, or all (default auto)
    smooth (ALPHA): folders, --int8 --layout w8a8: columns of inputs that are larger than others are divided by powers of two in the norm or the weight before, by --calibration
    sensitivity (FILE): --aim-bytes, --aim-bpw, --aim-loss: choose by what each scheme does to the outputs, from the --json of vcompress sensitivity --data
    rest (keep|fp16|bf16): also cast the other f32 and f64 tensors, such as embeddings, norms and biases, except tensors that --exclude names and tensors that GGUF's loaders need in f32 (default keep)
    min_elements (N): keep tensors with fewer elements (default 4096)
    min_row (N): keep tensors with fewer elements per index of the axis (default 32)
    nonfinite (error|keep|zero): NaN and Inf in the source: fail, copy this tensor, or replace the values (default error)
    overflow (error|inf|sat): fp16, bf16, f8_e4m3, f8_e5m2, --rest: values beyond the range: fail, Inf, or the largest finite value (default error)
    requantize: accept input that is quantized already
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("quantize", locals())


def prune(input: Input, output: Optional[Path] = None, *, progress: Show = None, sparsity: Optional[str] = None,
        scope: Optional[Literal["tensor", "global"]] = None,
        score: Optional[Literal["magnitude", "lamp", "wanda", "sparsegpt", "l2", "l1", "norm", "obs"]] = None, calibration: Optional[Path] = None,
        calibration_anyway: bool = False, reconstruct: bool = False, pattern: Optional[Values] = None, structured: Optional[str] = None,
        remove: Optional[Path] = None, dims: Optional[str] = None, round_to: Optional[int] = None, couplings: Optional[Path] = None,
        graph: Optional[Path] = None,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        mask: Optional[File] = None, mask_out: Optional[Path] = None, make_permanent: bool = False, set: Optional[Values] = None,
        min_keep: Optional[str] = None, min_elements: Optional[int] = None, nonfinite: Optional[Literal["error", "keep"]] = None, dequantize: bool = False,
        drop_layers: Optional[str] = None, data: Optional[File] = None, rows: Optional[int] = None, length: Optional[int] = None,
        keep_layers: Optional[str] = None, layers: Optional[str] = None, include: Optional[Values] = None, exclude: Optional[Values] = None,
        output_dir: Optional[Path] = None, format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None,
        emit: Optional[Values] = None, force: bool = False, force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False,
        remote: bool = False, metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, min_sqnr: Optional[float] = None, max_sqnr_drop: Optional[float] = None,
        expect_sparsity: Optional[Values] = None, gates: Optional[Path] = None, known: Optional[Values] = None, device: Optional[str] = None,
        threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None,
        markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Set the smallest weights to zero, or remove neurons or layers.

    vcompress prune (--sparsity SHARE | --pattern N:M | --structured SHARE | --drop-layers LIST | ...) [options] INPUT... [-o OUTPUT | -d DIR]

    sparsity (SHARE): share of the weights that become zero, smallest scores first: 0.5 or 50%
    scope (tensor|global): prune the same share of each tensor, which loses more, or all tensors with one threshold (default: with --sparsity global, by the scores of lamp; with --score magnitude, --set alone, a pattern or --structured tensor)
    score (magnitude|lamp|wanda|sparsegpt|l2|l1|norm|obs): the score of a weight. magnitude: its magnitude
    calibration (FILE): --score wanda, sparsegpt or obs, --reconstruct: what the layers get to see, a file of vcompress calibrate
    calibration_anyway: also statistics that were measured with weights of another training
    reconstruct: the weights that stay make up for those that go: least squares, by the second moments of --calibration
    pattern (N:M|block:RxC): N:M keeps the N largest of every M weights along the input channels (2:4 for sparse tensor cores)
    structured (SHARE): remove this share of the neurons or channels of every layer: their rows, the columns that read them, biases, norms
    remove (FILE): remove the units of this file, in place of --structured: a line per group with a tensor and axis of the group and the numbers, such as fc1.weight:0 3,7,12-20
    dims (LIST): --structured: kinds of units to remove: neurons, heads, experts, hidden, by commas (default neurons)
    round_to (N): --structured: the remaining neurons or hidden size are rounded up to a multiple of N
    couplings (FILE): --structured, --remove: the rows and columns that belong together, a line per group: fc1.weight:0 = fc1.bias:0 = fc2.weight:1 (default: from the graph of the model)
    graph (FILE): --structured, --remove, --target-gpu, --must-fit: the graph of the model, if its own file has no graph: a list of layers, or an ONNX file
    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): --structured, --remove: plain: write shapes even if the configuration beside the weights cannot state them, and copy the configuration unchanged
    mask (FILE): prune by the masks of this file: NAME.mask, or NAME, with 1 for kept weights
    mask_out (FILE): also write the masks of all pruned tensors: NAME.mask, a bit per weight, for --mask
    make_permanent: apply only the masks of torch.nn.utils.prune: NAME_orig and NAME_mask become the tensor NAME
    set (GLOB=SHARE): another share for tensors whose name matches, also for tensors that the default rules skip
    min_keep (SHARE): --scope global: at least this share of every tensor stays (default 0.01)
    min_elements (N): keep tensors with fewer elements (default 0)
    nonfinite (error|keep): NaN and Inf in the source: stop, or keep that tensor (default error)
    dequantize: accept quantized weights: they become f32 first
    drop_layers (LIST|least:N): remove whole layers, by their numbers from 0: 8,9,10 or 8-10
    data (FILE): --drop-layers: for least:N, rows, an array for each input of the model (npz, safetensors, ...)
    rows (N): --data: the first N rows only (default: all)
    length (N): --data: the file holds only tokens, as written by nanoGPT and llm.c
    keep_layers (LIST): the same, by the layers that stay: 0-7,11
    layers (NAME): --drop-layers, --keep-layers: the prefix of the layer numbers in the names of tensors: decoder.block
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    expect_sparsity (SHARE): gate: write nothing and exit 1 when fewer of the pruned weights are zero in the output than pruning each tensor to this share makes
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("prune", locals())


def run(input: Input, output: Optional[Path] = None, recipe: Optional[Path] = None, *, progress: Show = None, passes: Optional[Sequence[str]] = None,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        output_dir: Optional[Path] = None, format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None,
        emit: Optional[Values] = None, force: bool = False, force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False,
        remote: bool = False, metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, graph: Optional[Path] = None, min_sqnr: Optional[float] = None,
        max_sqnr_drop: Optional[float] = None, expect_sparsity: Optional[Values] = None, gates: Optional[Path] = None, known: Optional[Values] = None,
        device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None,
        html: Optional[Path] = None, markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Do several passes in one run.

    vcompress run (RECIPE | --pass 'PASS OPTIONS' ...) [options] INPUT... [-o OUTPUT | -d DIR]

    passes ('PASS OPTIONS'): a pass with its options, such as 'quantize --int8'
    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): layout of codes in the output, as of a pass of quantize
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    expect_sparsity (SHARE): gate: write nothing and exit 1 when fewer of the pruned weights are zero in the output than pruning each tensor to this share makes
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("run", locals())


def dequantize(input: Input, output: Optional[Path] = None, *, progress: Show = None, f32: bool = False, fp16: bool = False, bf16: bool = False,
        source_dtype: bool = False, casts: bool = False, overflow: Optional[Literal["error", "inf", "sat"]] = None, include: Optional[Values] = None,
        exclude: Optional[Values] = None, output_dir: Optional[Path] = None,
        format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None, emit: Optional[Values] = None, force: bool = False,
        force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False, remote: bool = False,
        metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, graph: Optional[Path] = None, min_sqnr: Optional[float] = None,
        max_sqnr_drop: Optional[float] = None, gates: Optional[Path] = None, device: Optional[str] = None, threads: Optional[int] = None,
        max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None, markdown: Optional[Path] = None,
        diffable: bool = False) -> Report:
    """Turn quantized weights back into floats.

    vcompress dequantize [--f32 | --fp16 | --bf16 | --source-dtype] [options] INPUT... [-o OUTPUT | -d DIR]

    f32: to f32 (default)
    fp16: to IEEE half precision
    bf16: to bfloat16
    source_dtype: each tensor gets its type before quantization
    casts: f16 and bf16 tensors become the target as well
    overflow (error|inf|sat): values beyond the target's range: stop, make them Inf, or the largest finite (default error)
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("dequantize", locals())


def merge(input: Input, output: Optional[Path] = None, *, progress: Show = None, lora: Optional[Values] = None, partial: bool = False,
        output_dir: Optional[Path] = None, format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None,
        emit: Optional[Values] = None, force: bool = False, force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False,
        remote: bool = False, metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, graph: Optional[Path] = None, min_sqnr: Optional[float] = None,
        max_sqnr_drop: Optional[float] = None, gates: Optional[Path] = None, device: Optional[str] = None, threads: Optional[int] = None,
        max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None, markdown: Optional[Path] = None,
        diffable: bool = False) -> Report:
    """Add low-rank adapters (LoRA, DoRA) to the weights.

    vcompress merge --lora ADAPTER[=WEIGHT]... [options] INPUT... [-o OUTPUT | -d DIR]

    lora (ADAPTER[=WEIGHT]): a folder of PEFT (adapter_config.json beside adapter_model.safetensors), or a single file of kohya or diffusers
    partial: leave out modules of the adapter that the model does not have, such as those of a text encoder beside a UNet
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("merge", locals())


def convert(input: Input, output: Optional[Path] = None, *, progress: Show = None,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        c_header: bool = False, c_prefix: Optional[str] = None, c_align: Optional[int] = None, output_dir: Optional[Path] = None,
        format: Optional[Literal["npy", "npz", "safetensors", "gguf", "torch", "onnx"]] = None, emit: Optional[Values] = None, force: bool = False,
        force_foreign: bool = False, deflate: Optional[Union[bool, Values]] = None, strip: bool = False, remote: bool = False,
        metadata: Optional[Values] = None, dry_run: bool = False, digest: bool = False, max_bytes: Optional[Union[int, str]] = None,
        min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None, target_gpu: Optional[Values] = None,
        must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None, max_shard_size: Optional[Union[int, str]] = None,
        shard: Optional[Values] = None, drop: Optional[Values] = None, key: Optional[str] = None, void_as: Optional[Values] = None, keep_names: bool = False,
        pre: Optional[str] = None, no_vocab: bool = False, mmproj: bool = False, graph: Optional[Path] = None, gates: Optional[Path] = None,
        device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None,
        html: Optional[Path] = None, markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Write the same tensors in another file format.

    vcompress convert [options] INPUT... (-o OUTPUT | --format FORMAT [-d DIR])

    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): of codes in safetensors, and of int4 in ONNX (onnx: MatMulNBits, onnx-qdq: DequantizeLinear): the same codes and scales as another program finds them, or a refusal where it has no place for them (default auto: as they lie)
    c_header: write a header of C, for programs on microcontrollers
    c_prefix (NAME): --c-header: what all names in it begin with (default: the output's name)
    c_align (N): --c-header: bytes that each array is aligned to (default 16)
    output_dir (DIR): write into this folder, under the default names of the outputs
    format (npy|npz|safetensors|gguf|torch|onnx): the format of the output, if its name has no extension of a format
    emit (FILE,...): more outputs of the same run, each in the format of its extension
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too, or of a version of vcompress without marks
    deflate (auto|zlib|isal): compress the members
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces, and the class names that some programs read there
    remote: INPUT may lie on another machine, hf:OWNER/NAME[@REVISION][/FILE] or https://...: it is read as the work goes on, and not kept (needs the plug-in vcompress_http.so; HF_ENDPOINT and HF_TOKEN as the hub's own tools have them)
    metadata (KEY=VALUE): GGUF, safetensors, ONNX: an entry of the output's metadata, in place of one with its key
    dry_run: print the report, write nothing
    digest: print the SHA-256 of every written file, in the form of sha256sum
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    max_shard_size (SIZE): safetensors, GGUF: write a folder of files with at most SIZE of tensors each (default: divided as the input)
    shard (I/N): do the files of worker I of N only, into the same folder as the other workers
    drop (optimizer|other): drop tensors of a training checkpoint that are not weights: the optimizer's state, or all other
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    keep_names: GGUF of a folder: keep names and shapes of tensors, without metadata (default: the model that llama.cpp runs, made of config.json, tensors and tokenizer)
    pre (NAME): GGUF of a folder: tokenizer.ggml.pre, llama.cpp's name for how the tokenizer cuts texts, such as qwen2 (default: found by the regular expressions in tokenizer.json)
    no_vocab: GGUF of a folder, and the way back: leave the vocabulary out
    mmproj: GGUF of a folder: the vision tower, which llama.cpp loads beside the model for text
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return write("convert", locals())


def distill(output: Optional[Path] = None, *, progress: Show = None, student: Optional[Path] = None, width: Optional[str] = None,
        keep_layers: Optional[str] = None, layers: Optional[str] = None, eval: Optional[File] = None, eval_array: Optional[Values] = None,
        eval_teacher: Optional[Path] = None, eval_labels: Optional[File] = None, teacher: Optional[Path] = None, teacher_graph: Optional[Path] = None,
        graph: Optional[Path] = None, data: Optional[File] = None, array: Optional[Values] = None, labels: Optional[File] = None,
        ignore_label: Optional[int] = None, rows: Optional[Values] = None, part: Optional[Values] = None, part_seed: Optional[int] = None,
        length: Optional[Values] = None, token_bits: Optional[int] = None, scale: Optional[float] = None, mean: Optional[str] = None, std: Optional[str] = None,
        steps: Optional[int] = None, epochs: Optional[int] = None, batch: Optional[int] = None, accum: Optional[int] = None,
        optimizer: Optional[Literal["sgd", "momentum", "adam", "adamw", "adam8bit"]] = None, lr: Optional[float] = None, momentum: Optional[float] = None,
        nesterov: bool = False, betas: Optional[Values] = None, eps: Optional[float] = None, weight_decay: Optional[float] = None, decay_1d: bool = False,
        schedule: Optional[Literal["constant", "cosine", "linear", "step"]] = None, warmup: Optional[int] = None, step_every: Optional[int] = None,
        step_factor: Optional[float] = None, clip: Optional[float] = None, temperature: Optional[float] = None, alpha: Optional[float] = None,
        temperature_end: Optional[float] = None, alpha_end: Optional[float] = None, classes: Optional[Literal["same", "common"]] = None,
        task: Optional[Literal["auto", "classes", "tokens", "labels", "regression", "embeddings", "maps", "spans"]] = None,
        loss: Optional[Literal["kd", "mse", "cosine", "auto", "reverse", "js", "bce", "huber"]] = None, huber_delta: Optional[float] = None,
        label_smoothing: Optional[float] = None, class_weights: Optional[str] = None, match: Optional[Values] = None, seed: Optional[int] = None,
        order: Optional[Literal["shuffled", "file"]] = None, precision: Optional[Values] = None, loss_scale: Optional[float] = None,
        recompute: Optional[Values] = None, budget: Optional[Union[int, str]] = None, device_memory: Optional[Union[int, str]] = None,
        freeze: Optional[Values] = None, allow_tied: bool = False, frozen_norm: bool = False, recalibrate_bn: bool = False, keep_sparsity: bool = False,
        no_keep_sparsity: bool = False, mask: Optional[File] = None, sparsity: Optional[str] = None, prune_steps: Optional[Values] = None,
        scope: Optional[Literal["tensor", "global"]] = None, min_keep: Optional[str] = None, min_elements: Optional[int] = None,
        fake_quant: Optional[Values] = None, learn_scales: bool = False, control: bool = False, include: Optional[Values] = None,
        exclude: Optional[Values] = None, force: bool = False, force_foreign: bool = False, strip: bool = False, dry_run: bool = False,
        log: Optional[Path] = None, dump_gradients: Optional[Path] = None, eval_every: Optional[int] = None, early_stop: Optional[int] = None,
        keep: Optional[Literal["best", "last"]] = None, checkpoint: Optional[Path] = None, checkpoint_every: Optional[int] = None,
        resume: Optional[Path] = None, min_accuracy: Optional[float] = None, max_drop: Optional[float] = None, min_agreement: Optional[float] = None,
        min_f1: Optional[float] = None, min_r2: Optional[float] = None, min_cosine: Optional[float] = None, min_iou: Optional[float] = None,
        max_cross_entropy: Optional[float] = None, max_mae: Optional[float] = None, max_mse: Optional[float] = None, expect_sparsity: Optional[Values] = None,
        ranks: Optional[Literal["auto", "none", "mpi"]] = None, all_reduce: Optional[Literal["auto", "host", "nccl"]] = None, gates: Optional[Path] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Train a network to give the answers of another network.

    vcompress distill [--teacher FILE] (--student FILE | --width SHARE | --keep-layers LIST) --data FILE [options] -o OUTPUT

    student (FILE): the network to train: a pruned copy of the teacher, or another network
    width (SHARE): in place of --student: the teacher with this share of the neurons, channels and heads of every layer, chosen by the largest weights, as by prune --structured
    keep_layers (LIST): in place of --student: the teacher with these layers only, such as 0,2,4, as by prune --keep-layers. With --width: both
    layers (NAME): --keep-layers: the prefix of the layer numbers in the names of tensors: decoder.block
    eval (FILE): rows to evaluate teacher and student on, before and after
    eval_array (NAME=ARRAY): --eval: as --array
    eval_teacher (FILE): --eval: answers of the teacher to the rows of --eval, if --teacher is a file of vcompress logits
    eval_labels (FILE): --eval: as --labels
    teacher (FILE): the network whose answers are the target
    teacher_graph (FILE): the graph of the teacher, if different from the student's
    graph (FILE): the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each model)
    data (FILE): rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, idx.gz, ...)
    array (NAME=ARRAY): --data: take this input, or y, or mask, from this array (default: the array of the same name; a single array is the single input)
    labels (FILE): --data: another file, whose single array is y
    ignore_label (N): --data: rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding
    rows (N): --data: the first N rows only
    part (FROM-TO): --data: of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap have no row in common
    part_seed (N): --part: seed of the order (default 0)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    steps (N): optimizer steps (default 400)
    epochs (N): epochs over the data, in place of --steps
    batch (N): rows computed at a time (default 64)
    accum (N): batches per step
    optimizer (sgd|momentum|adam|adamw|adam8bit): (default adamw)
    lr (X): learning rate (default 0.001)
    momentum (X): --optimizer momentum: (default 0.9)
    nesterov: --optimizer momentum: look ahead by the momentum
    betas (X,Y): of adam, adamw and adam8bit (default 0.9,0.999)
    eps (X): of adam, adamw and adam8bit (default 1e-8)
    weight_decay (X): weight decay, except of tensors of one dimension (default 0.01 for adamw, else 0)
    decay_1d: weight decay of biases and norms, too
    schedule (constant|cosine|linear|step): of the learning rate (default constant)
    warmup (N): steps in which the rate rises (default 0)
    step_every (N): --schedule step: steps with one rate (default 100)
    step_factor (X): --schedule step: then times this (default 0.1)
    clip (X): the largest norm of all gradients (default: any)
    temperature (T): of the teacher's answers (default 2)
    alpha (X): share of the teacher's term in the loss, 0 to 1
    temperature_end (T): the temperature at the last step: it goes there in a line from --temperature (default: it stays)
    alpha_end (X): the share at the last step, 0 to 1: it goes there in a line from --alpha (default: it stays)
    classes (same|common): if vocabularies of teacher and student are padded to different sizes: common compares the first classes, which both have (default same)
    task (auto|classes|tokens|labels|regression|embeddings|maps|spans): --data: what the network is for: one class for each row (classes) or for each position of it (tokens), several of many (labels: y has 0 or 1 for each), numbers (regression), directions (embeddings), one class for each place (maps: [rows, classes, height, width]), start and end of a part (spans)
    loss (kd|mse|cosine|auto|reverse|js|bce|huber): --data: what answers are compared by, with the teacher's, and with y if it has floats: divergence of classes, from the teacher (kd), from the student (reverse) or Jensen-Shannon's (js)
    huber_delta (X): --loss huber: errors up to X count squared, larger ones linearly (default 1)
    label_smoothing (X): cross-entropy with labels: spread this share of each label over all classes, as PyTorch does (default 0)
    class_weights (X,...): cross-entropy with labels: a weight for each class, such as 1,1,5, as PyTorch has them (default: 1 each)
    match (TEACHER=STUDENT:mse|attention|cosine|distances|angles|gram[:WEIGHT[:END]]): another term of the loss, repeatable: values inside both networks, by their names in graph --full
    seed (N): of the order of the rows, and of new weights (default 0)
    order (shuffled|file): of the rows: shuffled for each epoch, or as in the file (default shuffled)
    precision (f32|f64|bf16|fp16): of the arithmetic (default f32)
    loss_scale (X): --precision fp16: multiply the loss by this power of two (default: adapts itself, starting at 65536)
    recompute (none|sqrt|every:K|layer|auto): parts of the forward pass that the backward pass computes again, as in estimate (default none)
    budget (SIZE): --recompute auto: largest memory of the networks' programs
    device_memory (SIZE): with --device cuda: the most memory of the device to use
    freeze (GLOB): do not train tensors whose name matches
    allow_tied: train a tensor with several names in an ONNX file as one tensor (exporters write equal tensors once)
    frozen_norm: batch normalization computes with its running statistics, and keeps them
    recalibrate_bn: no training: compute the running statistics of batch normalization anew from the rows of --data
    keep_sparsity: zeros stay zero in all tensors with two or more dimensions (default: only in pruned tensors, with 20 to 99.9 % zeros)
    no_keep_sparsity: train zeros as all other weights: a pruned student fills again
    mask (FILE): weights that the masks of this file do not keep become zero and stay zero (as prune --mask-out writes them)
    sparsity (SHARE): prune during training: at the end this share of the weights is zero, the smallest magnitudes first, in the tensors that prune selects: 0.9 or 90%
    prune_steps (FIRST:LAST:EVERY): --sparsity: first and last step after which weights become zero, and the number of steps between
    scope (tensor|global): --sparsity: seek the smallest in each tensor by itself, or in all tensors together (default tensor)
    min_keep (SHARE): --sparsity: with --scope global, at least this share of every tensor stays (default 0.01)
    min_elements (N): --sparsity, --fake-quant: not of tensors with fewer elements (default 0 and 4096)
    fake_quant (SCHEME): train with rounded weights, as quantize rounds the tensors that quantize selects: int8, int8/tensor, int8/group:64, fp16, bf16: quantizing the output changes no value
    learn_scales: codes of int8 and Q8_0 (of --fake-quant, of the student): train their scales, too
    control: train the same student again with labels and without the teacher, and report the difference
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    force: replace an existing file, or a folder that vcompress wrote and that holds nothing else (never the input)
    force_foreign: --force, and replace a model's folder of another program, too
    strip: ONNX: leave out what computes nothing: descriptions and metadata, such as the exporter's stack traces
    dry_run: check everything and count the memory
    log (FILE): a line of JSON for each step
    dump_gradients (FILE): the gradients of the first step, by the names of their tensors (npz, safetensors)
    eval_every (N): evaluate the student on --eval after every N steps and after the last step
    early_stop (N): --eval-every: end the run after N evaluations in a row without a better result
    keep (best|last): --eval-every: write the weights of the best evaluation, or of the last step (default best)
    checkpoint (FILE): file for the state of an interrupted run (Ctrl-C), and for --checkpoint-every (npz, safetensors)
    checkpoint_every (N): ... and after every N steps
    resume (FILE): continue from this checkpoint, with the same options and files, as if the run had not been interrupted
    min_accuracy (SHARE): gate: write nothing and exit 1 if the student's accuracy on --eval is lower, such as 0.95
    max_drop (SHARE): gate: ... if its accuracy is further below the teacher's accuracy, such as 0.01
    min_agreement (SHARE): gate: write nothing and exit 1 if it agrees with the teacher on fewer rows, such as 0.95
    min_f1 (X): gate: ... if F1 of labels, or of spans, is lower, such as 0.8
    min_r2 (X): gate: ... if R2 of a regression is lower, such as 0.9
    min_cosine (X): gate: ... if the mean cosine of embeddings is lower
    min_iou (X): gate: ... if the mean IoU of maps is lower
    max_cross_entropy (X): gate: ... if the cross-entropy with y is higher
    max_mae (X): gate: ... if the mean absolute error of values is higher, in their unit
    max_mse (X): gate: ... if their mean squared error is higher
    expect_sparsity (SHARE): gate: ... if the pruned tensors end with fewer zeros than pruning each tensor to this share makes
    ranks (auto|none|mpi): processes started by mpirun or srun share the batches of each step (--accum), with the bits of one process (default auto: if there are several processes; none: each process trains by itself)
    all_reduce (auto|host|nccl): how gradients of ranks with a CUDA device each are added: by the hosts, with the bits of one process, or by NCCL between devices, equal up to rounding (default auto: NCCL, if all ranks have NCCL)
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return make("distill", locals())


def logits(input: Path, output: Path, *, progress: Show = None, graph: Optional[Path] = None, data: Optional[File] = None, array: Optional[Values] = None,
        labels: Optional[File] = None, ignore_label: Optional[int] = None, rows: Optional[Values] = None, part: Optional[Values] = None,
        part_seed: Optional[int] = None, length: Optional[Values] = None, token_bits: Optional[int] = None, scale: Optional[float] = None,
        mean: Optional[str] = None, std: Optional[str] = None, topk: Optional[int] = None, temperature: Optional[float] = None,
        task: Optional[Literal["auto", "classes", "tokens", "labels", "regression", "embeddings", "maps", "spans"]] = None,
        loss: Optional[Literal["kd", "mse", "cosine", "auto", "reverse", "js", "bce", "huber"]] = None, dtype: Optional[Values] = None,
        batch: Optional[int] = None, precision: Optional[Literal["f32", "f64"]] = None, force: bool = False, known: Optional[Values] = None,
        device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None,
        diffable: bool = False) -> Report:
    """Write the answers of a network, as a teacher for distill.

    vcompress logits --data FILE [--graph FILE] [options] -o OUTPUT TEACHER

    graph (FILE): the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each model)
    data (FILE): rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, idx.gz, ...)
    array (NAME=ARRAY): --data: take this input, or y, or mask, from this array (default: the array of the same name; a single array is the single input)
    labels (FILE): --data: another file, whose single array is y
    ignore_label (N): --data: rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding
    rows (N): --data: the first N rows only
    part (FROM-TO): --data: of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap have no row in common
    part_seed (N): --part: seed of the order (default 0)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    topk (K): only the K largest logits of each row, and the sum of all (default: all logits)
    temperature (T): --topk: of that sum
    task (auto|classes|tokens|labels|regression|embeddings|maps|spans): --data: what the network is for: one class for each row (classes) or for each position of it (tokens), several of many (labels: y has 0 or 1 for each), numbers (regression), directions (embeddings), one class for each place (maps: [rows, classes, height, width]), start and end of a part (spans)
    loss (kd|mse|cosine|auto|reverse|js|bce|huber): --data: what answers are compared by, with the teacher's, and with y if it has floats: divergence of classes, from the teacher (kd), from the student (reverse) or Jensen-Shannon's (js)
    dtype (f16|f32|f64): of the logits in the file (default f32)
    batch (N): rows computed at a time (default 64)
    precision (f32|f64): of the arithmetic (default f32)
    force: replace an existing file (never the input)
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return make("logits", locals(), document=False)


def calibrate(input: Path, output: Path, *, progress: Show = None, graph: Optional[Path] = None, data: Optional[File] = None, array: Optional[Values] = None,
        labels: Optional[File] = None, ignore_label: Optional[int] = None, rows: Optional[Values] = None, part: Optional[Values] = None,
        part_seed: Optional[int] = None, length: Optional[Values] = None, token_bits: Optional[int] = None, scale: Optional[float] = None,
        mean: Optional[str] = None, std: Optional[str] = None, second_moments: bool = False, batch: Optional[int] = None, force: bool = False,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """Gather what layers get to see, for quantize and prune.

    vcompress calibrate --data FILE [--graph FILE] [options] -o OUTPUT MODEL, or -o OUTPUT STATISTICS...

    graph (FILE): the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each model)
    data (FILE): rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, idx.gz, ...)
    array (NAME=ARRAY): --data: take this input, or y, or mask, from this array (default: the array of the same name; a single array is the single input)
    labels (FILE): --data: another file, whose single array is y
    ignore_label (N): --data: rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding
    rows (N): --data: the first N rows only
    part (FROM-TO): --data: of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap have no row in common
    part_seed (N): --part: seed of the order (default 0)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    second_moments: also the products of all pairs of columns, which GPTQ needs: 8 bytes * columns * columns of memory, and as much in the file, for each layer
    batch (N): rows computed at a time (default 64)
    force: replace an existing file (never the input)
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return make("calibrate", locals(), document=False)


def index(input: Input, *, progress: Show = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """Write the index of a folder of safetensors files.

    vcompress index [options] FOLDER

    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("index", locals(), document=False)


def inspect(input: Input, *, progress: Show = None, stats: bool = False, key: Optional[str] = None, void_as: Optional[Values] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """List the tensors of a checkpoint.

    vcompress inspect [--stats] [options] INPUT...

    stats: read the values: NaN, Inf, zeros, ranges, and how the magnitudes are spread
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("inspect", locals())


def graph(input: Input, *, progress: Show = None, full: bool = False, text: bool = False, couplings: bool = False, svg: Optional[Path] = None,
        size: Optional[Values] = None, graph: Optional[Path] = None, weights: Optional[Path] = None, data: Optional[File] = None,
        outputs: Optional[Path] = None, array: Optional[Values] = None, length: Optional[Values] = None, token_bits: Optional[int] = None,
        scale: Optional[float] = None, mean: Optional[str] = None, std: Optional[str] = None, batch: Optional[int] = None, value: Optional[Values] = None,
        precision: Optional[Literal["f32", "f64"]] = None, force: bool = False, known: Optional[Values] = None, device: Optional[str] = None,
        threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, html: Optional[Path] = None,
        diffable: bool = False) -> Report:
    """Show the graph of a model.

    vcompress graph [options] MODEL

    full: list every node with its inputs and outputs, in place of blocks
    text: print only the graph, in ONNX's textual syntax
    couplings: print only the couplings, in the form of a file for prune --couplings: rows and columns of tensors that must be removed together
    svg (FILE): also draw the graph
    size (NAME=N): a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: 1 for batch and other leading sizes, sequence=128; others stay open)
    graph (FILE): what the checkpoint MODEL computes: a list of layers, ONNX's text, or a config.json
    weights (FILE): the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost
    data (FILE): compute the graph: the arrays of this file are the inputs (npz, safetensors, ...)
    outputs (FILE): file for the computed values: npz, safetensors, ...
    array (INPUT=NAME): --outputs: take this input from this array of --data (default: the array of the same name)
    length (N): --outputs: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --outputs: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --outputs: then subtract X: one number, or one for each channel
    std (X,...): --outputs: then divide by X: one number, or one for each channel
    batch (N): --outputs: compute N rows of the inputs at a time, such as 1 for a graph that was exported with one row (default: all)
    value (NAME): --outputs: compute this value, by its name in --full
    precision (f32|f64): --outputs: of all floats (default f32)
    force: --outputs: replace an existing file
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("graph", locals())


def evaluate(input: Input, *, progress: Show = None, teacher: Optional[Path] = None, teacher_graph: Optional[Path] = None, graph: Optional[Path] = None,
        data: Optional[File] = None, array: Optional[Values] = None, labels: Optional[File] = None, ignore_label: Optional[int] = None,
        rows: Optional[Values] = None, part: Optional[Values] = None, part_seed: Optional[int] = None, length: Optional[Values] = None,
        token_bits: Optional[int] = None, scale: Optional[float] = None, mean: Optional[str] = None, std: Optional[str] = None, batch: Optional[int] = None,
        temperature: Optional[float] = None, task: Optional[Literal["auto", "classes", "tokens", "labels", "regression", "embeddings", "maps", "spans"]] = None,
        loss: Optional[Literal["kd", "mse", "cosine", "auto", "reverse", "js", "bce", "huber"]] = None, huber_delta: Optional[float] = None,
        precision: Optional[Literal["f32", "f64"]] = None, min_accuracy: Optional[float] = None, min_agreement: Optional[float] = None,
        min_f1: Optional[float] = None, min_r2: Optional[float] = None, min_cosine: Optional[float] = None, min_iou: Optional[float] = None,
        max_cross_entropy: Optional[float] = None, max_mae: Optional[float] = None, max_mse: Optional[float] = None, gates: Optional[Path] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """Tell how well a network answers.

    vcompress evaluate --data FILE [--teacher FILE] [--graph FILE] [options] MODEL

    teacher (FILE): the network whose answers are the target
    teacher_graph (FILE): the graph of the teacher, if different from the student's
    graph (FILE): the graph of the networks: a text or an ONNX file, as for vcompress graph (default: the graph in each model)
    data (FILE): rows: an array for each input of the graph and optionally labels y and a mask (npz, safetensors, idx, idx.gz, ...)
    array (NAME=ARRAY): --data: take this input, or y, or mask, from this array (default: the array of the same name; a single array is the single input)
    labels (FILE): --data: another file, whose single array is y
    ignore_label (N): --data: rows, or positions, with this number as their label have none, as those below 0: 255 of masks, 0 of padding
    rows (N): --data: the first N rows only
    part (FROM-TO): --data: of these rows, in an order drawn from --part-seed, those from FROM % to TO %: parts that do not overlap have no row in common
    part_seed (N): --part: seed of the order (default 0)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    batch (N): rows computed at a time (default 64)
    temperature (T): --teacher: that the divergence from the teacher is measured at (default 2)
    task (auto|classes|tokens|labels|regression|embeddings|maps|spans): --data: what the network is for: one class for each row (classes) or for each position of it (tokens), several of many (labels: y has 0 or 1 for each), numbers (regression), directions (embeddings), one class for each place (maps: [rows, classes, height, width]), start and end of a part (spans)
    loss (kd|mse|cosine|auto|reverse|js|bce|huber): --data: what answers are compared by, with the teacher's, and with y if it has floats: divergence of classes, from the teacher (kd), from the student (reverse) or Jensen-Shannon's (js)
    huber_delta (X): --loss huber: errors up to X count squared, larger ones linearly (default 1)
    precision (f32|f64): of the arithmetic (default f32)
    min_accuracy (SHARE): gate: exit 1 when fewer of the labelled rows are answered rightly, such as 0.95
    min_agreement (SHARE): gate: exit 1 if it agrees with the teacher on fewer rows, such as 0.95
    min_f1 (X): gate: ... if F1 of labels, or of spans, is lower, such as 0.8
    min_r2 (X): gate: ... if R2 of a regression is lower, such as 0.9
    min_cosine (X): gate: ... if the mean cosine of embeddings is lower
    min_iou (X): gate: ... if the mean IoU of maps is lower
    max_cross_entropy (X): gate: ... if the cross-entropy with y is higher
    max_mae (X): gate: ... if the mean absolute error of values is higher, in their unit
    max_mse (X): gate: ... if their mean squared error is higher
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("evaluate", locals())


def sensitivity(input: Input, *, progress: Show = None, svg: Optional[Path] = None, min_elements: Optional[int] = None, key: Optional[str] = None,
        void_as: Optional[Values] = None, data: Optional[File] = None, graph: Optional[Path] = None, array: Optional[Values] = None,
        length: Optional[Values] = None, token_bits: Optional[int] = None, scale: Optional[float] = None, mean: Optional[str] = None, std: Optional[str] = None,
        rows: Optional[int] = None, batch: Optional[int] = None, include: Optional[Values] = None, exclude: Optional[Values] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """Measure the error of pruning and quantizing each tensor.

    vcompress sensitivity [--svg FILE] [--data FILE] [options] INPUT...

    svg (FILE): also draw a heat map of all tensors, and the curves of the tensors that pruning hurts most
    min_elements (N): leave out tensors with fewer elements (default 0)
    key (NAME): PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    data (FILE): also compute the model with the arrays of this file as inputs (npz, safetensors, ...): the error of the outputs if only one tensor changes, or coupled units are removed
    graph (FILE): --data: the graph of the model: a text or an ONNX file, as for vcompress graph (default: the graph in INPUT)
    array (INPUT=NAME): --data: take this input from this array of --data (default: the array of the same name)
    length (N): --data: N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text (.txt, or .jsonl with "text" in each line), which the tokenizer in the model's folder makes tokens of
    token_bits (16|32): --length: bits of a token
    scale (X): --data: multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)
    mean (X,...): --data: then subtract X: one number, or one for each channel
    std (X,...): --data: then divide by X: one number, or one for each channel
    rows (N): --data: compute the first N rows of the data (default 8)
    batch (N): --data: compute N rows at a time, such as 1 for a graph exported with one row (default: all)
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("sensitivity", locals())


def verify(input: Input, *, progress: Show = None, data: bool = False, sha256: bool = False, against: Optional[Path] = None, min_sqnr: Optional[float] = None,
        pattern: Optional[str] = None, include: Optional[Values] = None, exclude: Optional[Values] = None, strict: bool = False,
        void_as: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """List all errors of a checkpoint.

    vcompress verify [--data] [--sha256] [--against SOURCE] [options] FILE...

    data: read the values as well: checksums, scales, ranges of codes, NaN and Inf, weights that are there twice
    sha256: print the SHA-256 of every tensor's values (C order, little-endian: the same in every format)
    against (FILE): compare with the checkpoint that the file was made from: the same tensors, copied tensors byte for byte, the error of the others
    min_sqnr (DB): --against: a tensor that differs and stays below this SQNR is an error
    pattern (N:M|block:RxC): every weight that prune would choose has at most N values of M along the input channels that are not zero, such as 2:4
    include (GLOB): --pattern: tensors whose name matches, too
    exclude (GLOB): --pattern: not the tensors whose name matches
    strict: warnings count for the exit status as well
    void_as (bf16): what NumPy's raw 2-byte elements (V2) mean
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("verify", locals())


def estimate(input: Input, *, progress: Show = None, batch: Optional[int] = None, seq: Optional[int] = None, size: Optional[Values] = None,
        graph: Optional[Path] = None, weights: Optional[Path] = None, dtype: Optional[Values] = None, kv_dtype: Optional[Values] = None,
        runtime: Optional[Values] = None, ctx: Optional[int] = None, n_cpu_moe: Optional[int] = None,
        mode: Optional[Literal["infer", "train", "distill"]] = None, teacher: Optional[str] = None, teacher_dtype: Optional[Values] = None,
        trainer: Optional[Literal["pytorch", "vcompress"]] = None,
        optimizer: Optional[Literal["sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"]] = None, foreach: bool = False, no_foreach: bool = False,
        amp: Optional[Literal["none", "autocast", "pure"]] = None, recompute: Optional[Values] = None, budget: Optional[Union[int, str]] = None,
        attention: Optional[Literal["fused", "eager", "softmax", "auto"]] = None,
        allocator: Optional[Literal["exact", "cuda", "pytorch", "onnxruntime"]] = None, in_place: bool = False, no_reuse: bool = False, dropout: bool = False,
        no_dropout: bool = False, lora: Optional[int] = None, lora_targets: Optional[Literal["qv", "attention", "all"]] = None,
        grad_dtype: Optional[Values] = None, im2col: Optional[int] = None, workspace: Optional[Union[int, str]] = None,
        context_overhead: Optional[Union[int, str]] = None, device_kind: Optional[Values] = None, dp: Optional[int] = None,
        zero: Optional[Literal["0", "1", "2", "3"]] = None, tp: Optional[int] = None, sequence_parallel: bool = False, pp: Optional[int] = None,
        schedule: Optional[Literal["1f1b", "gpipe", "interleaved"]] = None, chunks: Optional[int] = None, stage: Optional[int] = None,
        accum: Optional[int] = None, bucket: Optional[int] = None, offload: Optional[Literal["none", "optimizer", "all"]] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """Estimate the memory of a model, for inference or for training.

    vcompress estimate [options] MODEL

    batch (N): the size batch of the inputs (default 1)
    seq (N): the size sequence of the inputs (default 128; llama.cpp: what it computes at once, 512)
    size (NAME=N): a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: 1 for batch and other leading sizes, sequence=128; others stay open)
    graph (FILE): what the checkpoint MODEL computes: a list of layers, ONNX's text, or a config.json
    weights (FILE): the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost
    dtype (TYPE): the type of floats in memory (default: as stored; f32 without a file): f32, f16, bf16, f64, or the scheme of their codes, every name that quantize has (int4, nf4, fp8, q4_k_m), int4/group:64 and its like, awq/group:N, gptq/group:N, hqq/group:N, nf4-dq, q4_0, q4_k and others (docs/memory-model.md)
    kv_dtype (TYPE): of the keys and values of --ctx: f32, f16, bf16, int8, fp8, q8_0, q5_1, q5_0, q4_1, q4_0, nvfp4 (default: as the activations; llama.cpp f16)
    runtime (NAME): the program whose rules the figures follow: llama.cpp, onnxruntime, bitsandbytes, transformers, pytorch, vllm (default: the one that usually runs such a file; docs/memory-model.md has the rules)
    ctx (N): inference: keys and values of N positions are kept for every sequence
    n_cpu_moe (N): llama.cpp's option: the experts of the first N layers are in the memory of the host
    mode (infer|train|distill): the use of the model (default infer)
    teacher (MODEL): --mode distill: the model that is there, too, and computes the targets
    teacher_dtype (f32|f16|bf16|f64): --teacher: the type of the teacher's floats in memory (default: as stored)
    trainer (pytorch|vcompress): --mode train|distill: the program that trains (default pytorch)
    optimizer (sgd|momentum|adam|adamw|adafactor|adam8bit): --mode train|distill: whose states training keeps (default adamw)
    foreach: --mode train|distill: the optimizer updates all weights at once, as PyTorch does on GPUs (default): Adam then needs a copy of its second moments
    no_foreach: --mode train|distill: one weight after the other: foreach=False in PyTorch, or fused=True, which needs no copy at all
    amp (none|autocast|pure): --mode train|distill: mixed precision: autocast keeps f32 weights and computes products in half precision
    recompute (none|sqrt|every:K|layer|selective|auto): --mode train|distill: activation checkpointing: parts that the backward pass computes again (default none): sqrt: about the square root of the number of operators as parts
    budget (SIZE): --recompute auto: the largest peak (default of fit and plan: the room on the device)
    attention (fused|eager|softmax|auto): as one kernel, or with a matrix of scores
    allocator (exact|cuda|pytorch|onnxruntime): blocks are rounded up to 1, 256, 512 or 256 bytes (default exact; of fit the program's own)
    in_place: activation functions, normalizations and additions overwrite an input that is not needed later
    no_reuse: every value has memory of its own, which nothing uses again
    dropout: --mode train|distill: values are dropped at random, and the masks are kept, in attention and where a branch joins the stream, too (default: where the model says it; of a config.json by its probabilities, or those that transformers has where keys are absent)
    no_dropout: --mode train|distill: nothing is dropped
    lora (R): --mode train|distill: only adapters of rank R are trained, the weights stay as they are
    lora_targets (qv|attention|all): --lora: which products of the layers have adapters: queries and values (default), attention, or all
    grad_dtype (f32|f16|bf16|f64): --mode train|distill: of gradients (default: as the weights)
    im2col (N): convolutions copy the windows of N images at once into the workspace (default: no copies)
    workspace (SIZE): memory of the library for products (default 32MiB)
    context_overhead (SIZE): memory of the device's runtime (default 300MiB)
    device_kind (gpu|mcu): mcu: a microcontroller: --memory is its RAM, weights stay in flash, codes are codes
    dp (N): --mode train|distill: N copies of the model, each with a batch of its own
    zero (0|1|2|3): tensors divided between the copies of --dp: 1 states, 2 also gradients, 3 also weights (default 0)
    tp (N): products of attention, MLP and vocabulary are divided between N devices
    sequence_parallel: divide along the sequence the tensors that --tp does not divide
    pp (N): layers are divided between N devices, the stages of a pipeline
    schedule (1f1b|gpipe|interleaved): in which order stages compute the parts of a batch (default 1f1b)
    chunks (N): --schedule interleaved: groups of layers on each stage (default 2)
    stage (N): the stage that is shown (default: the one that needs most)
    accum (N): --mode train|distill: a step adds the gradients of N parts of --batch each (default 1)
    bucket (N): elements of a buffer that --zero collects gradients or weights in (default 500000000)
    offload (none|optimizer|all): --mode train|distill: tensors in the host's memory: gradients, states and master weights
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("estimate", locals())


def fit(input: Input, *, progress: Show = None, gpu: Optional[Values] = None, memory: Optional[Union[int, str]] = None, all_gpus: bool = False,
        max_batch: bool = False, max_ctx: bool = False, max_gpu_layers: bool = False, baseline: Optional[Path] = None, max_growth: Optional[Values] = None,
        gpus_file: Optional[Path] = None, ecc: Optional[Literal["as-listed", "on", "off"]] = None, slice: Optional[str] = None, weights_only: bool = False,
        activations: Optional[Union[int, str]] = None, margin: Optional[Union[int, str]] = None, used: Optional[Union[int, str]] = None,
        batch: Optional[int] = None, seq: Optional[int] = None, size: Optional[Values] = None, graph: Optional[Path] = None, weights: Optional[Path] = None,
        dtype: Optional[Values] = None, kv_dtype: Optional[Values] = None, runtime: Optional[Values] = None, ctx: Optional[int] = None,
        n_cpu_moe: Optional[int] = None, mode: Optional[Literal["infer", "train", "distill"]] = None, teacher: Optional[str] = None,
        teacher_dtype: Optional[Values] = None, trainer: Optional[Literal["pytorch", "vcompress"]] = None,
        optimizer: Optional[Literal["sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"]] = None, foreach: bool = False, no_foreach: bool = False,
        amp: Optional[Literal["none", "autocast", "pure"]] = None, recompute: Optional[Values] = None, budget: Optional[Union[int, str]] = None,
        attention: Optional[Literal["fused", "eager", "softmax", "auto"]] = None,
        allocator: Optional[Literal["exact", "cuda", "pytorch", "onnxruntime"]] = None, in_place: bool = False, no_reuse: bool = False, dropout: bool = False,
        no_dropout: bool = False, lora: Optional[int] = None, lora_targets: Optional[Literal["qv", "attention", "all"]] = None,
        grad_dtype: Optional[Values] = None, im2col: Optional[int] = None, workspace: Optional[Union[int, str]] = None,
        context_overhead: Optional[Union[int, str]] = None, device_kind: Optional[Values] = None, dp: Optional[int] = None,
        zero: Optional[Literal["0", "1", "2", "3"]] = None, tp: Optional[int] = None, sequence_parallel: bool = False, pp: Optional[int] = None,
        schedule: Optional[Literal["1f1b", "gpipe", "interleaved"]] = None, chunks: Optional[int] = None, stage: Optional[int] = None,
        accum: Optional[int] = None, bucket: Optional[int] = None, offload: Optional[Literal["none", "optimizer", "all"]] = None, gates: Optional[Path] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """Tell whether a model fits a GPU, for inference or for training.

    vcompress fit [options] --gpu NAME MODEL

    gpu (NAME[:COUNT]): a name from vcompress gpus, or auto: the GPU of this machine
    memory (SIZE): a device with this memory for a program: 16GiB
    all_gpus: list every GPU that the model fits, the smallest first
    max_batch: also find the largest batch that fits
    max_ctx: also find the largest context that fits, at most what the model was made for
    max_gpu_layers: also find how many of the last layers fit on the device, with the others and their keys and values on the host
    baseline (FILE): an earlier document of --json: exit 1 also if the peak has grown by more than --max-growth
    max_growth (SHARE): --baseline: allowed growth of the peak (default 0)
    gpus_file (FILE): more GPUs (see vcompress gpus --csv)
    ecc (as-listed|on|off): GDDR memory that checks itself is a sixteenth smaller
    slice (N/M): a slice (MIG) of the device: 1/8 for 1g.5gb of an A100
    weights_only: ask about the weights alone
    activations (SIZE): where the file does not say what its model computes: take this for what it needs beside weights
    margin (SIZE): what has to stay free (default 256MiB)
    used (SIZE): what others have taken already
    batch (N): the size batch of the inputs (default 1)
    seq (N): the size sequence of the inputs (default 128; llama.cpp: what it computes at once, 512)
    size (NAME=N): a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: 1 for batch and other leading sizes, sequence=128; others stay open)
    graph (FILE): what the checkpoint MODEL computes: a list of layers, ONNX's text, or a config.json
    weights (FILE): the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost
    dtype (TYPE): the type of floats in memory (default: as stored; f32 without a file): f32, f16, bf16, f64, or the scheme of their codes, every name that quantize has (int4, nf4, fp8, q4_k_m), int4/group:64 and its like, awq/group:N, gptq/group:N, hqq/group:N, nf4-dq, q4_0, q4_k and others (docs/memory-model.md)
    kv_dtype (TYPE): of the keys and values of --ctx: f32, f16, bf16, int8, fp8, q8_0, q5_1, q5_0, q4_1, q4_0, nvfp4 (default: as the activations; llama.cpp f16)
    runtime (NAME): the program whose rules the figures follow: llama.cpp, onnxruntime, bitsandbytes, transformers, pytorch, vllm (default: the one that usually runs such a file; docs/memory-model.md has the rules)
    ctx (N): inference: keys and values of N positions are kept for every sequence
    n_cpu_moe (N): llama.cpp's option: the experts of the first N layers are in the memory of the host
    mode (infer|train|distill): the use of the model (default infer)
    teacher (MODEL): --mode distill: the model that is there, too, and computes the targets
    teacher_dtype (f32|f16|bf16|f64): --teacher: the type of the teacher's floats in memory (default: as stored)
    trainer (pytorch|vcompress): --mode train|distill: the program that trains (default pytorch)
    optimizer (sgd|momentum|adam|adamw|adafactor|adam8bit): --mode train|distill: whose states training keeps (default adamw)
    foreach: --mode train|distill: the optimizer updates all weights at once, as PyTorch does on GPUs (default): Adam then needs a copy of its second moments
    no_foreach: --mode train|distill: one weight after the other: foreach=False in PyTorch, or fused=True, which needs no copy at all
    amp (none|autocast|pure): --mode train|distill: mixed precision: autocast keeps f32 weights and computes products in half precision
    recompute (none|sqrt|every:K|layer|selective|auto): --mode train|distill: activation checkpointing: parts that the backward pass computes again (default none): sqrt: about the square root of the number of operators as parts
    budget (SIZE): --recompute auto: the largest peak (default of fit and plan: the room on the device)
    attention (fused|eager|softmax|auto): as one kernel, or with a matrix of scores
    allocator (exact|cuda|pytorch|onnxruntime): blocks are rounded up to 1, 256, 512 or 256 bytes (default exact; of fit the program's own)
    in_place: activation functions, normalizations and additions overwrite an input that is not needed later
    no_reuse: every value has memory of its own, which nothing uses again
    dropout: --mode train|distill: values are dropped at random, and the masks are kept, in attention and where a branch joins the stream, too (default: where the model says it; of a config.json by its probabilities, or those that transformers has where keys are absent)
    no_dropout: --mode train|distill: nothing is dropped
    lora (R): --mode train|distill: only adapters of rank R are trained, the weights stay as they are
    lora_targets (qv|attention|all): --lora: which products of the layers have adapters: queries and values (default), attention, or all
    grad_dtype (f32|f16|bf16|f64): --mode train|distill: of gradients (default: as the weights)
    im2col (N): convolutions copy the windows of N images at once into the workspace (default: no copies)
    workspace (SIZE): memory of the library for products (default 32MiB)
    context_overhead (SIZE): memory of the device's runtime (default 300MiB)
    device_kind (gpu|mcu): mcu: a microcontroller: --memory is its RAM, weights stay in flash, codes are codes
    dp (N): --mode train|distill: N copies of the model, each with a batch of its own
    zero (0|1|2|3): tensors divided between the copies of --dp: 1 states, 2 also gradients, 3 also weights (default 0)
    tp (N): products of attention, MLP and vocabulary are divided between N devices
    sequence_parallel: divide along the sequence the tensors that --tp does not divide
    pp (N): layers are divided between N devices, the stages of a pipeline
    schedule (1f1b|gpipe|interleaved): in which order stages compute the parts of a batch (default 1f1b)
    chunks (N): --schedule interleaved: groups of layers on each stage (default 2)
    stage (N): the stage that is shown (default: the one that needs most)
    accum (N): --mode train|distill: a step adds the gradients of N parts of --batch each (default 1)
    bucket (N): elements of a buffer that --zero collects gradients or weights in (default 500000000)
    offload (none|optimizer|all): --mode train|distill: tensors in the host's memory: gradients, states and master weights
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("fit", locals())


def plan(input: Input, *, progress: Show = None, gpu: Optional[str] = None, memory: Optional[Union[int, str]] = None, all: bool = False, scan: bool = False,
        without: Optional[Values] = None, gpus_file: Optional[Path] = None, ecc: Optional[Literal["as-listed", "on", "off"]] = None,
        slice: Optional[str] = None, weights_only: bool = False, activations: Optional[Union[int, str]] = None, margin: Optional[Union[int, str]] = None,
        used: Optional[Union[int, str]] = None, batch: Optional[int] = None, seq: Optional[int] = None, size: Optional[Values] = None,
        graph: Optional[Path] = None, weights: Optional[Path] = None, dtype: Optional[Values] = None, kv_dtype: Optional[Values] = None,
        runtime: Optional[Values] = None, ctx: Optional[int] = None, n_cpu_moe: Optional[int] = None,
        mode: Optional[Literal["infer", "train", "distill"]] = None, teacher: Optional[str] = None, teacher_dtype: Optional[Values] = None,
        trainer: Optional[Literal["pytorch", "vcompress"]] = None,
        optimizer: Optional[Literal["sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"]] = None, foreach: bool = False, no_foreach: bool = False,
        amp: Optional[Literal["none", "autocast", "pure"]] = None, recompute: Optional[Values] = None, budget: Optional[Union[int, str]] = None,
        attention: Optional[Literal["fused", "eager", "softmax", "auto"]] = None,
        allocator: Optional[Literal["exact", "cuda", "pytorch", "onnxruntime"]] = None, in_place: bool = False, no_reuse: bool = False, dropout: bool = False,
        no_dropout: bool = False, lora: Optional[int] = None, lora_targets: Optional[Literal["qv", "attention", "all"]] = None,
        grad_dtype: Optional[Values] = None, im2col: Optional[int] = None, workspace: Optional[Union[int, str]] = None,
        context_overhead: Optional[Union[int, str]] = None, device_kind: Optional[Values] = None, dp: Optional[int] = None,
        zero: Optional[Literal["0", "1", "2", "3"]] = None, tp: Optional[int] = None, sequence_parallel: bool = False, pp: Optional[int] = None,
        schedule: Optional[Literal["1f1b", "gpipe", "interleaved"]] = None, chunks: Optional[int] = None, stage: Optional[int] = None,
        accum: Optional[int] = None, bucket: Optional[int] = None, offload: Optional[Literal["none", "optimizer", "all"]] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, diffable: bool = False) -> Report:
    """Tell how a model can be made to fit a GPU, as command lines.

    vcompress plan [options] --gpu NAME MODEL

    gpu (NAME[:COUNT]): as vcompress gpus lists them, or auto, the one at hand (default: $VCOMPRESS_GPU)
    memory (SIZE): a device of which a program sees that much: 16GiB
    all: list every recipe that needs less memory than all less harmful recipes, whether or not the recipe fits
    scan: read the weights and measure the errors
    without (LIST): leave as they are: weights, prune, cache, batch, context
    gpus_file (FILE): more GPUs (see vcompress gpus --csv)
    ecc (as-listed|on|off): GDDR memory that checks itself is a sixteenth smaller
    slice (N/M): a slice (MIG) of the device: 1/8 for 1g.5gb of an A100
    weights_only: ask about the weights alone
    activations (SIZE): where the file does not say what its model computes: take this for what it needs beside weights
    margin (SIZE): what has to stay free (default 256MiB)
    used (SIZE): what others have taken already
    batch (N): the size batch of the inputs (default 1)
    seq (N): the size sequence of the inputs (default 128; llama.cpp: what it computes at once, 512)
    size (NAME=N): a size of the inputs that the model leaves open, such as batch=8 or sequence=512 (default: 1 for batch and other leading sizes, sequence=128; others stay open)
    graph (FILE): what the checkpoint MODEL computes: a list of layers, ONNX's text, or a config.json
    weights (FILE): the checkpoint that a text's parameters are in, or that has the names which an ONNX file has lost
    dtype (TYPE): the type of floats in memory (default: as stored; f32 without a file): f32, f16, bf16, f64, or the scheme of their codes, every name that quantize has (int4, nf4, fp8, q4_k_m), int4/group:64 and its like, awq/group:N, gptq/group:N, hqq/group:N, nf4-dq, q4_0, q4_k and others (docs/memory-model.md)
    kv_dtype (TYPE): of the keys and values of --ctx: f32, f16, bf16, int8, fp8, q8_0, q5_1, q5_0, q4_1, q4_0, nvfp4 (default: as the activations; llama.cpp f16)
    runtime (NAME): the program whose rules the figures follow: llama.cpp, onnxruntime, bitsandbytes, transformers, pytorch, vllm (default: the one that usually runs such a file; docs/memory-model.md has the rules)
    ctx (N): inference: keys and values of N positions are kept for every sequence
    n_cpu_moe (N): llama.cpp's option: the experts of the first N layers are in the memory of the host
    mode (infer|train|distill): the use of the model (default infer)
    teacher (MODEL): --mode distill: the model that is there, too, and computes the targets
    teacher_dtype (f32|f16|bf16|f64): --teacher: the type of the teacher's floats in memory (default: as stored)
    trainer (pytorch|vcompress): --mode train|distill: the program that trains (default pytorch)
    optimizer (sgd|momentum|adam|adamw|adafactor|adam8bit): --mode train|distill: whose states training keeps (default adamw)
    foreach: --mode train|distill: the optimizer updates all weights at once, as PyTorch does on GPUs (default): Adam then needs a copy of its second moments
    no_foreach: --mode train|distill: one weight after the other: foreach=False in PyTorch, or fused=True, which needs no copy at all
    amp (none|autocast|pure): --mode train|distill: mixed precision: autocast keeps f32 weights and computes products in half precision
    recompute (none|sqrt|every:K|layer|selective|auto): --mode train|distill: activation checkpointing: parts that the backward pass computes again (default none): sqrt: about the square root of the number of operators as parts
    budget (SIZE): --recompute auto: the largest peak (default of fit and plan: the room on the device)
    attention (fused|eager|softmax|auto): as one kernel, or with a matrix of scores
    allocator (exact|cuda|pytorch|onnxruntime): blocks are rounded up to 1, 256, 512 or 256 bytes (default exact; of fit the program's own)
    in_place: activation functions, normalizations and additions overwrite an input that is not needed later
    no_reuse: every value has memory of its own, which nothing uses again
    dropout: --mode train|distill: values are dropped at random, and the masks are kept, in attention and where a branch joins the stream, too (default: where the model says it; of a config.json by its probabilities, or those that transformers has where keys are absent)
    no_dropout: --mode train|distill: nothing is dropped
    lora (R): --mode train|distill: only adapters of rank R are trained, the weights stay as they are
    lora_targets (qv|attention|all): --lora: which products of the layers have adapters: queries and values (default), attention, or all
    grad_dtype (f32|f16|bf16|f64): --mode train|distill: of gradients (default: as the weights)
    im2col (N): convolutions copy the windows of N images at once into the workspace (default: no copies)
    workspace (SIZE): memory of the library for products (default 32MiB)
    context_overhead (SIZE): memory of the device's runtime (default 300MiB)
    device_kind (gpu|mcu): mcu: a microcontroller: --memory is its RAM, weights stay in flash, codes are codes
    dp (N): --mode train|distill: N copies of the model, each with a batch of its own
    zero (0|1|2|3): tensors divided between the copies of --dp: 1 states, 2 also gradients, 3 also weights (default 0)
    tp (N): products of attention, MLP and vocabulary are divided between N devices
    sequence_parallel: divide along the sequence the tensors that --tp does not divide
    pp (N): layers are divided between N devices, the stages of a pipeline
    schedule (1f1b|gpipe|interleaved): in which order stages compute the parts of a batch (default 1f1b)
    chunks (N): --schedule interleaved: groups of layers on each stage (default 2)
    stage (N): the stage that is shown (default: the one that needs most)
    accum (N): --mode train|distill: a step adds the gradients of N parts of --batch each (default 1)
    bucket (N): elements of a buffer that --zero collects gradients or weights in (default 500000000)
    offload (none|optimizer|all): --mode train|distill: tensors in the host's memory: gradients, states and master weights
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("plan", locals())


def diff(a: Path, b: Path, *, progress: Show = None, tolerance: Optional[float] = None, min_sqnr: Optional[float] = None, key: Optional[str] = None,
        gates: Optional[Path] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, html: Optional[Path] = None, markdown: Optional[Path] = None, diffable: bool = False) -> Report:
    """Compare two checkpoints, or two reports.

    vcompress diff [--tolerance X] [--min-sqnr DB] [options] A B

    tolerance (X): largest difference of two values that still counts as equal (default 0)
    min_sqnr (DB): what counts is the SQNR of each tensor, not the single value, unless --tolerance is given too
    key (NAME): PyTorch files: the dict whose tensors are the weights (default: the usual names)
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    html (FILE): write the report as a page, too: one HTML file to search, sort and print
    markdown (FILE): write a short table in Markdown, for a comment on a pull request
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("diff", locals())


def gpus(*, progress: Show = None, gpus_file: Optional[Path] = None, device: Optional[str] = None, threads: Optional[int] = None,
        max_memory: Optional[Union[int, str]] = None, cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """List GPUs that are known: their memory, bandwidth and types.

    vcompress gpus [options] [NAME]

    gpus_file (FILE): more rows, or others for names that are there: CSV with the titles that --csv prints, of which name and memory_gb are enough
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("gpus", locals())


def devices(*, progress: Show = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """List the CUDA devices, or the reason why no device is usable.

    vcompress devices [-v] [options]

    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("devices", locals(), document=False)


def selftest(*, progress: Show = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Report:
    """Check the kernels of this machine.

    vcompress selftest [options]

    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return ask("selftest", locals(), document=False)


def compress(arrays: Weights, passes: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, str]] = None, *, progress: Show = None,
        int8: bool = False, int4: bool = False, int3: bool = False, int2: bool = False, fp8: bool = False, nvfp4: bool = False, nf4: bool = False,
        fp4: bool = False, mxfp4: bool = False, mxfp8: bool = False, fp16: bool = False, bf16: bool = False, scheme: Optional[Values] = None,
        gguf: Optional[str] = None, aim_sqnr: Optional[float] = None, aim_bytes: Optional[Union[int, str]] = None, aim_bpw: Optional[float] = None,
        aim_loss: Optional[Values] = None, type: Optional[Values] = None, type_file: Optional[Path] = None, granularity: Optional[Values] = None,
        axis: Optional[int] = None, symmetric: bool = False, asymmetric: bool = False, double_quant: bool = False,
        layout: Optional[Literal["auto", "plain", "compressed-tensors", "w8a8", "bitsandbytes", "gptq", "awq", "fp8", "onnx", "onnx-qdq", "comfyui", "mlx"]] = None,
        encoder: Optional[Literal["best", "llama"]] = None, pure: bool = False, calibration: Optional[Path] = None, calibration_anyway: bool = False,
        activations: Optional[Literal["none", "static"]] = None, ranges: Optional[Values] = None, saturation: Optional[Literal["auto", "off", "all"]] = None,
        smooth: Optional[float] = None, sensitivity: Optional[Path] = None, rest: Optional[Literal["keep", "fp16", "bf16"]] = None,
        min_elements: Optional[int] = None, min_row: Optional[int] = None, nonfinite: Optional[Literal["error", "keep", "zero"]] = None,
        overflow: Optional[Literal["error", "inf", "sat"]] = None, requantize: bool = False, include: Optional[Values] = None, exclude: Optional[Values] = None,
        max_bytes: Optional[Union[int, str]] = None, min_ratio: Optional[float] = None, baseline: Optional[Path] = None, max_growth: Optional[Values] = None,
        target_gpu: Optional[Values] = None, must_fit: Optional[Values] = None, weights_only: bool = False, gpus_file: Optional[Path] = None,
        graph: Optional[Path] = None, min_sqnr: Optional[float] = None, max_sqnr_drop: Optional[float] = None, gates: Optional[Path] = None,
        known: Optional[Values] = None, device: Optional[str] = None, threads: Optional[int] = None, max_memory: Optional[Union[int, str]] = None,
        cpu_mask: Optional[str] = None, diffable: bool = False) -> Compressed:
    """Quantizes weights in memory, or runs passes over them (passes=["prune --sparsity 0.8"]): arrays with the buffer protocol, tensors of torch, or a module. Tensors of torch give tensors of torch.

    vcompress quantize ... --pass

    int8: codes of 8 bits and f32 scales: a quarter of f32
    int4: codes of 4 bits and a scale per 128 of them: an eighth of f32
    int3: the same with codes of 3 bits: a tenth of f32
    int2: the same with codes of 2 bits: a fifteenth of f32
    fp8: floats of 8 bits (E4M3) and a scale per row: a quarter of f32
    nvfp4: floats of 4 bits (E2M1), an E4M3 scale per 16 and a scale per tensor, the same for layers that runtimes join: a seventh of f32
    nf4: the 16 values of QLoRA's NF4 and a scale per 64: a seventh of f32
    fp4: the same with bitsandbytes' FP4
    mxfp4: floats of 4 bits (E2M1) and a power of two per 32: less than a seventh of f32
    mxfp8: floats of 8 bits (E4M3) and a power of two per 32
    fp16: IEEE half precision: half of f32, values up to 65504
    bf16: bfloat16: half of f32, the range of f32, 8 bits of precision
    scheme (NAME): a scheme by its name, perhaps with its granularity, int3/group:64: those above, int5, int6, ternary, f8_e4m3, f8_e5m2 (ternary: codes -1, 0 and 1 in 2 bits; f8_e4m3, f8_e5m2: floats of 8 bits without scales, as single files of pictures have them)
    gguf (TYPE): GGUF's block types, chosen for each tensor as llama-quantize does, such as Q4_K_M or Q8_0
    aim_sqnr (DB): for every tensor the smallest of int2 to int6, int8 (a scale per tensor, channel or group), fp16 and bf16 with this SQNR, else unchanged
    aim_bytes (SIZE): the same types for every tensor, chosen for the least sum of squared errors in a file of at most SIZE
    aim_bpw (BITS): the same for a file of at most BITS bits for each weight, whatever it has beside them: 4.5
    aim_loss (X%): the smallest file whose tensors, each by itself, change the outputs by less than X% together (root of the sum of squares), by the figures of --sensitivity
    type (GLOB=SCHEME): another scheme for the tensors whose names match: one of --scheme, with --gguf a block type (q6_k), or keep
    type_file (FILE): the same from the lines of a file, behind those of --type
    granularity (tensor|channel|group:N|block:N): of codes: one scale per tensor (int8 only), per index of the axis, or per N elements of an index, or of fp8 per block of N rows and N columns (default channel; int2 to int6 and ternary group:128, nf4 and fp4 group:64; GGUF has group:32 only)
    axis (N): int8: the axis of the channels, negative from the end (default: the output channels: the last axis of kernels of Flax and Keras, axis 0 if neither format nor name is known)
    symmetric: codes around zero, without zero points (default)
    asymmetric: int8 and int2 to int6: codes with a zero point per scale
    double_quant: nf4, fp4 for bitsandbytes: scales become codes of a byte, with a scale for 256 of them
    layout (auto|plain|compressed-tensors|w8a8|bitsandbytes|gptq|awq|fp8|onnx|onnx-qdq|comfyui|mlx): codes in safetensors: the programs that load the output. plain: codes and scales for everything
    encoder (best|llama): --gguf: best has the lowest error that the search finds, llama the bytes that llama-quantize writes (default best)
    pure: --gguf: TYPE's base type for every tensor that gets blocks, without the mixture's exceptions
    calibration (FILE): --gguf, codes of 2 to 6 bits and of floats, and --activations: what the layers get to see, a file of vcompress calibrate or llama-imatrix
    calibration_anyway: also statistics that were measured with weights of another training
    activations (none|static): ONNX, --int8: static also makes codes (u8) of what Conv, Gemm and MatMul read and make, by the ranges in --calibration, so that onnxruntime computes with codes
    ranges (min-max|error|entropy|percentile:P): --activations static: in ONNX files, the range of a value's codes: all that was seen, the part with the least squared error, that whose histogram 128 levels keep best (as TensorRT), or that of P % of its elements, such as 99.99 (default min-max)
    saturation (auto|off|all): --activations static: in ONNX files, smaller codes, down to 7 bits, for layers with which processors without VNNI overflow 16 bits: those that do so for the calibration's rows, none, or all (default auto)
    smooth (ALPHA): folders, --int8 --layout w8a8: columns of inputs that are larger than others are divided by powers of two in the norm or the weight before, by --calibration
    sensitivity (FILE): --aim-bytes, --aim-bpw, --aim-loss: choose by what each scheme does to the outputs, from the --json of vcompress sensitivity --data
    rest (keep|fp16|bf16): also cast the other f32 and f64 tensors, such as embeddings, norms and biases, except tensors that --exclude names and tensors that GGUF's loaders need in f32 (default keep)
    min_elements (N): keep tensors with fewer elements (default 4096)
    min_row (N): keep tensors with fewer elements per index of the axis (default 32)
    nonfinite (error|keep|zero): NaN and Inf in the source: fail, copy this tensor, or replace the values (default error)
    overflow (error|inf|sat): fp16, bf16, f8_e4m3, f8_e5m2, --rest: values beyond the range: fail, Inf, or the largest finite value (default error)
    requantize: accept input that is quantized already
    include (GLOB): work on tensors whose name matches, whatever the default rules say
    exclude (GLOB): keep tensors whose name matches
    max_bytes (SIZE): gate: write nothing and exit 1 if an output is larger
    min_ratio (X): gate: write nothing and exit 1 if an output is not X times smaller than the input
    baseline (FILE): gate: write nothing and exit 1 if the output is larger than that of an earlier run, whose report this is (--json=FILE)
    max_growth (SHARE): --baseline: by how much the output may be larger (default 0)
    target_gpu (NAME): report whether the model fits this GPU before and after (vcompress gpus lists names), for inference with batch 1 and 128 positions, or for the weights alone if the file has no graph
    must_fit (GPU): gate: write nothing and exit 1 if the output does not fit this GPU, as --target-gpu reports, or if the answer is unknown, as without --weights-only of a file that has no graph
    weights_only: --target-gpu, --must-fit: ask about the weights alone
    gpus_file (FILE): --target-gpu, --must-fit: more GPUs (see vcompress gpus --csv)
    graph (FILE): --target-gpu, --must-fit: what the model computes, if its own file does not say it: a list of layers, ONNX's text, an ONNX file or a config.json
    min_sqnr (DB): gate: write nothing and exit 1 when a changed tensor stays below this SQNR
    max_sqnr_drop (DB): --baseline: gate: write nothing and exit 1 if the SQNR over all changed tensors is lower than in the earlier run by more than DB
    gates (FILE): read gates from this JSON file, by the names of their options: {"min_sqnr": 40, "evaluate": {"min_accuracy": 0.98}}
    known (NAME=N): an input of one number, or a size that inputs leave open, is N in every run: If and Loop of ONNX that depend on it are one of their branches and so many steps (sr=16000)
    device (auto|cpu|cuda|cuda:N): where to compute
    threads (N): threads to use (default, and 0: every processor this process may use)
    max_memory (SIZE): most memory to use (default: a quarter of the free memory)
    cpu_mask (ref|base|avx2|avx512|neon|all): highest instruction set to use, for tests: quantize, prune and convert write the same bytes
    diffable: leave out time, memory, threads and device, so that two runs print the same
    """
    return in_memory(locals())
