"""vcompress: model checkpoints made smaller. Every command of the program is a function here; options are keywords.

    import vcompress

    report = vcompress.quantize("model.safetensors", "small.safetensors", int8=True, exclude=["lm_head*"])
    print(report["totals"])
    small = vcompress.compress({"w": array}, int8=True)         # arrays in memory: NumPy, torch on the CPU, any buffer
    arrays = small.decompress()

Options have the names of the command (vcompress quantize --help=all): --min-sqnr 40 is min_sqnr=40, --int8 is int8=True, an option
that repeats is a list. Results are dicts of the schemas of --json. Failures raise Error with the library's sentence.
"""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._arrays import Arrays, Buffer, parse, to_array
from ._call import Error, Gate, InputError, Progress, Report, SystemFailure, UsageError, call, words_of

__all__ = ["quantize", "dequantize", "prune", "distill", "run", "convert", "inspect", "estimate", "fit", "plan", "diff", "verify",
           "sensitivity", "evaluate", "gpus", "compress", "Compressed", "Report", "Progress", "Error", "Gate", "UsageError", "InputError", "SystemFailure"]
__version__ = "@VERSION@"

Path = Union[str, "os.PathLike[str]"]
Show = Optional[Callable[[Progress], None]]


def _command(name: str, inputs: Sequence[Path], options: Dict[str, Any], progress: Show = None, **streams: Any) -> Report:
    words = [name, "--json", *words_of(options), "--", *(os.fspath(path) for path in inputs)]
    return call(words, progress, **streams)


def _write(name: str, input: Path, output: Optional[Path], options: Dict[str, Any], progress: Show) -> Report:
    report = _command(name, [input], {"output": output, **options}, progress)
    if not report.ok:
        raise _gate(report)
    return report


def _gate(report: Report) -> Gate:
    gate = Gate(report.sentence)
    gate.report = report
    return gate


def quantize(input: Path, output: Optional[Path] = None, *, progress: Show = None, **options: Any) -> Report:
    """Stores weights in fewer bits: int8=True, int4=True, fp8=True, gguf="Q4_K_M", aim_sqnr=30, ..."""
    return _write("quantize", input, output, options, progress)


def dequantize(input: Path, output: Optional[Path] = None, *, progress: Show = None, **options: Any) -> Report:
    """Makes floats of codes."""
    return _write("dequantize", input, output, options, progress)


def prune(input: Path, output: Optional[Path] = None, *, progress: Show = None, **options: Any) -> Report:
    """Sets the least important weights to zero, or removes channels, heads, layers: sparsity=0.8, structured=..."""
    return _write("prune", input, output, options, progress)


def convert(input: Path, output: Optional[Path] = None, *, progress: Show = None, **options: Any) -> Report:
    """Copies a checkpoint into another format."""
    return _write("convert", input, output, options, progress)


def run(input: Path, output: Optional[Path] = None, *, passes: Sequence[str], progress: Show = None, **options: Any) -> Report:
    """Several passes in one run: passes=["prune --sparsity 0.8", "quantize --int8"]."""
    return _write("run", input, output, {"pass": list(passes), **options}, progress)


def distill(output: Optional[Path] = None, *, progress: Show = None, **options: Any) -> Report:
    """Trains a small network to give the answers of its teacher: data=, graph=, student=, teacher=, epochs=, ..."""
    report = _command("distill", [], {"output": output, **options}, progress)
    if not report.ok:
        raise _gate(report)
    return report


def inspect(input: Union[Path, Mapping[str, Any]], *, progress: Show = None, **options: Any) -> Report:
    """Lists the tensors of a checkpoint, or of arrays in memory; with stats=True also statistics of their values."""
    if isinstance(input, Mapping):
        return _command("inspect", ["<arrays>"], options, progress, source=Arrays(input))
    return _command("inspect", [input], options, progress)


def estimate(input: Path, **options: Any) -> Report:
    """The memory that a model takes, part by part."""
    return _command("estimate", [input], options)


def fit(input: Path, **options: Any) -> Report:
    """Which GPUs hold the model: gpu="RTX 4060", ctx=4096, ...; report.ok is the answer."""
    return _command("fit", [input], options)


def plan(input: Path, **options: Any) -> Report:
    """Commands that would make a model fit."""
    return _command("plan", [input], options)


def diff(a: Path, b: Path, *, progress: Show = None, **options: Any) -> Report:
    """What two checkpoints differ in; report.ok: in nothing, or in no more than tolerance=."""
    return _command("diff", [a, b], options, progress)


def verify(input: Path, *, progress: Show = None, **options: Any) -> Report:
    """Reads a file whole and lists what is wrong with it; report.ok: nothing."""
    return _command("verify", [input], options, progress)


def sensitivity(input: Path, *, progress: Show = None, **options: Any) -> Report:
    """How much error each tensor would have in fewer bits."""
    return _command("sensitivity", [input], options, progress)


def evaluate(input: Path, *, progress: Show = None, **options: Any) -> Report:
    """Runs a network on data: data=, graph=; report.ok: no gate was missed."""
    return _command("evaluate", [input], options, progress)


def gpus(**options: Any) -> Report:
    """The GPUs that fit knows."""
    return _command("gpus", [], options)


class Compressed(Dict[str, Any]):
    """Arrays of a compressed checkpoint by name, codes and scales: of NumPy (else memoryviews), over the bytes of `data`, a
    safetensors file. Types that NumPy does not have (`dtypes` names them: BF16, F8_E4M3, ...) are their bits as integers."""

    def __init__(self, data: Union[bytes, bytearray], report: Optional[Report] = None) -> None:
        super().__init__()
        self.data = data
        self.report = report if report is not None else Report()
        self.dtypes: Dict[str, str] = {}
        for name, dtype, shape, view in parse(data):
            self[name] = to_array(dtype, shape, view)
            self.dtypes[name] = dtype

    def decompress(self, *, progress: Show = None, **options: Any) -> "Compressed":
        """The arrays as floats again."""
        return _in_memory("dequantize", Buffer(self.data), options, progress)

    def save(self, path: Path) -> None:
        with open(path, "wb") as file:
            file.write(self.data)

    @classmethod
    def load(cls, path: Path) -> "Compressed":
        with open(path, "rb") as file:
            return cls(file.read())


def _in_memory(name: str, source: Any, options: Dict[str, Any], progress: Show) -> Compressed:
    target = Buffer()
    report = _command(name, ["<arrays>"], {"format": "safetensors", **options}, progress, source=source, target=target)
    if not target.complete:
        raise _gate(report)
    return Compressed(target.data, report)


def compress(arrays: Mapping[str, Any], *, passes: Optional[List[str]] = None, metadata: Optional[Mapping[str, str]] = None,
             progress: Show = None, **options: Any) -> Compressed:
    """Quantizes arrays in memory (int8=True, ...), or runs passes over them (passes=["prune --sparsity 0.8"]). Arrays have the
    buffer protocol or, as tensors of torch on the CPU, DLPack; they are read where they are."""
    if passes is not None:
        options["pass"] = passes
    return _in_memory("run" if passes is not None else "quantize", Arrays(arrays, metadata), options, progress)
