"""What runs the functions of _commands.py: from the keywords of a function to the call of a command, with its progress."""
from __future__ import annotations

import builtins
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from numbers import Real
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._arrays import Arrays, Buffer, Weights, as_tensors, parse, to_array
from ._call import Gate, Progress, Report, call, words_of
from ._network import is_network, network

Path = Union[str, "os.PathLike[str]"]
# Rows, labels or masks: a file, or arrays by name.
File = Union[Path, Mapping[str, Any]]
# A checkpoint, a model of transformers (anything with save_pretrained), a network of torch (network()), or for inspect arrays by name.
Input = Union[Path, Mapping[str, Any], Any]
Show = Union[None, bool, Callable[[Progress], None]]
Value = Union[str, int, float, "os.PathLike[str]"]
Values = Union[Value, Sequence[Value], Mapping[str, Value]]

_log = logging.getLogger("vcompress")


class _Bar:
    """A bar of tqdm for each part of the work."""

    def __init__(self, tqdm: Any) -> None:
        self.tqdm, self.bar, self.what = tqdm, None, ""  # type: Any, Any, str

    def __call__(self, progress: Progress) -> None:
        if self.bar is None or progress.what != self.what:
            self.close()
            self.what = progress.what
            self.bar = self.tqdm(total=progress.total, desc=progress.what, unit="B", unit_scale=True, unit_divisor=1024, delay=0.5, leave=False)
        self.bar.update(progress.done - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def _bar(progress: Show) -> Union[None, _Bar, Callable[[Progress], None]]:
    """What is called with the progress: by default a bar where somebody looks at a terminal or a notebook, and tqdm is there."""
    if progress is False or callable(progress):
        return progress or None
    if progress is None and not sys.stderr.isatty() and "ipykernel" not in sys.modules:
        return None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    return _Bar(tqdm)


def command(name: str, inputs: Sequence[Path], options: Dict[str, Any], progress: Show, document: bool = True, **streams: Any) -> Report:
    """Runs it, and logs what it says: one line at INFO, with the notes of the report. document: the command has one. Networks of torch,
    as inputs and as options (graph, teacher, ...), and arrays by name (data, eval, ...) are written first, in a folder that does not
    stay."""
    with ExitStack() as after:
        def path_of(value: Any, what: str) -> Any:
            arrays = isinstance(value, Mapping) and not all(isinstance(one, (str, os.PathLike, Real)) for one in value.values())
            if not is_network(value) and not arrays:
                return value
            path = os.path.join(after.enter_context(tempfile.TemporaryDirectory(prefix="vcompress-")), what)
            if arrays:
                Arrays(value).save(path + ".safetensors")
                return path + ".safetensors"
            network(value).save(path + ".onnx")
            return path + ".onnx"

        words = words_of({key: path_of(value, key) for key, value in options.items()})
        paths = [os.fspath(path_of(path, "network")) for path in inputs]
        show = _bar(progress)
        if isinstance(show, _Bar):
            after.callback(show.close)
        report = call([name, *(["--json"] if document else []), *words, "--", *paths], show, **streams)
    _log.info("%s: %r", name, report)
    for note in report.get("notes") or ():
        _log.info("%s: note: %s", name, note["text"] if isinstance(note, dict) else note)
    return report


def _checked(report: Report) -> Report:
    if not report.ok:
        gate = Gate(report.sentence)
        gate.report = report
        raise gate
    return report


def ask(name: str, values: Dict[str, Any], document: bool = True) -> Report:
    """A command that answers: `ok` of the report is the answer."""
    progress = values.pop("progress")
    inputs = [values.pop(operand) for operand in ("input", "a", "b") if operand in values]
    if inputs and isinstance(inputs[0], Mapping):
        return command(name, ["<arrays>"], values, progress, source=Arrays(inputs[0]))
    return command(name, inputs, values, progress, document)


def write(name: str, values: Dict[str, Any]) -> Report:
    """A command that writes a file. A model of transformers is saved first, in a folder that does not stay."""
    progress, input = values.pop("progress"), values.pop("input")
    before: List[Path] = []
    if name == "run":
        recipe = values.pop("recipe")
        before = [] if recipe is None else [recipe]
        values["pass"] = values.pop("passes")
    if not hasattr(input, "save_pretrained") and not is_network(input):
        return _checked(command(name, before + [input], values, progress))
    if all(values.get(key) in (None, False) for key in ("output", "output_dir", "dry_run")):
        raise TypeError(f"{name}: a model in memory has no folder beside which its output could lie: output= is missing")
    if is_network(input):
        return _checked(command(name, before + [input], values, progress))
    with tempfile.TemporaryDirectory(prefix="vcompress-") as folder:
        input.save_pretrained(folder)
        return _checked(command(name, before + [folder], values, progress))


def make(name: str, values: Dict[str, Any], document: bool = True) -> Report:
    """A command whose output is made of data."""
    progress = values.pop("progress")
    inputs = [values.pop("input")] if "input" in values else []
    return _checked(command(name, inputs, values, progress, document))


# ---- in memory ----


class Compressed(Dict[str, Any]):
    """Arrays of a compressed checkpoint by name, codes and scales, over the bytes of `data`, a safetensors file: tensors of torch where torch
    went in, else arrays of NumPy (without NumPy: memoryviews). Types that NumPy does not have (`dtypes` names them: BF16, F8_E4M3, ...)
    are their bits as integers there."""

    def __init__(self, data: Union[bytes, bytearray], report: Optional[Report] = None, torch: bool = False) -> None:
        super().__init__()
        self.data = data
        self.report = report if report is not None else Report()
        self.torch = torch
        self.dtypes: Dict[str, str] = {}
        for name, dtype, shape, view in parse(data):
            self[name] = to_array(dtype, shape, view, torch)
            self.dtypes[name] = dtype

    def decompress(self, *, progress: Show = None, **options: Any) -> "Compressed":
        """The arrays as floats again."""
        return _in_memory("dequantize", Buffer(self.data), options, progress, self.torch)

    def save(self, path: Path) -> None:
        """Writes the file that `data` is."""
        with builtins.open(path, "wb") as file:
            file.write(self.data)

    @classmethod
    def load(cls, path: Path, torch: bool = False) -> "Compressed":
        """Reads a file of save()."""
        with builtins.open(path, "rb") as file:
            return cls(bytearray(file.read()), torch=torch)


def _in_memory(name: str, source: Any, options: Dict[str, Any], progress: Show, torch: bool) -> Compressed:
    target = Buffer()
    report = command(name, ["<arrays>"], {"format": "safetensors", **options}, progress, source=source, target=target)
    if not target.complete:
        _checked(report)
    return Compressed(target.data, report, torch)


def in_memory(values: Dict[str, Any]) -> Compressed:
    """compress(): quantize, or run where passes are given."""
    arrays: Weights = values.pop("arrays")
    passes: Optional[List[str]] = values.pop("passes")
    metadata, progress = values.pop("metadata"), values.pop("progress")
    tensors, torch = as_tensors(arrays)
    if passes is not None:
        values["pass"] = passes
    return _in_memory("run" if passes is not None else "quantize", Arrays(tensors, metadata), values, progress, torch)
