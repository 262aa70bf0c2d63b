"""open(): a checkpoint of any format, whose tensors are read when they are asked for, and only the part that is asked for."""
from __future__ import annotations

import io
import numbers
import os
import threading
from types import TracebackType
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union

from ._arrays import Buffer, to_array
from ._call import Checkpoint

# The types of documents as safetensors calls them, and the bytes of an element.
_TYPES = {"f16": ("F16", 2), "f32": ("F32", 4), "f64": ("F64", 8), "bf16": ("BF16", 2), "bool": ("BOOL", 1), "i8": ("I8", 1), "u8": ("U8", 1),
          "i16": ("I16", 2), "u16": ("U16", 2), "i32": ("I32", 4), "u32": ("U32", 4), "i64": ("I64", 8), "u64": ("U64", 8),
          "f8_e4m3": ("F8_E4M3", 1), "f8_e5m2": ("F8_E5M2", 1), "f8_e8m0": ("F8_E8M0", 1), "c64": ("C64", 8)}
_PIECE = 1 << 24  # bytes of rows that are read at once where columns are chosen


class _Stream:
    """A source for the library over an open file of Python: fsspec, S3, the hub, a zip, a BytesIO."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._lock = file, threading.Lock()
        self.size = file.seek(0, os.SEEK_END)

    def read(self, offset: int, to: memoryview) -> None:
        with self._lock:
            self._file.seek(offset)
            while to.nbytes:
                part = self._file.read(to.nbytes)
                if not part:
                    raise EOFError("the file ends before its size of %d bytes" % self.size)
                to[:len(part)] = part
                to = to[len(part):]


class Slice:
    """A tensor of an open checkpoint. An index reads what it names: slice[10:20, :5]; numpy.asarray(slice) reads all."""

    def __init__(self, file: "File", number: int, row: Dict[str, Any]) -> None:
        self._file, self._number, self._row = file, number, row
        self.name: str = row["name"]
        self.dtype: str = row["dtype"]
        self.shape: Tuple[int, ...] = tuple(row["shape"])

    def get_shape(self) -> List[int]:
        return list(self.shape)

    def get_dtype(self) -> str:
        return _TYPES.get(self.dtype, (self.dtype.upper(), 0))[0]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single number has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return "<Slice %s: %s %s>" % (self.name, self.dtype, "x".join(map(str, self.shape)) or "single number")

    def _range(self, first: int, n: int, shape: Tuple[int, ...]) -> Any:
        """n elements from number `first` on. Types of blocks and packed codes come whole, as bytes."""
        name, size = _TYPES.get(self.dtype, ("U8", 0))
        if size == 0:
            first, n, shape = 0, self._row["elements"], (self._row["bytes"],)
        room = bytearray(n * size if size else self._row["bytes"])
        self._file.read(self._number, first, n, room)
        return to_array(name, shape, memoryview(room), self._file.framework == "pt")

    def _rows(self, begin: int, end: int) -> Any:
        row = self._row["elements"] // self.shape[0] if self.shape[0] else 0
        return self._range(begin * row, (end - begin) * row, (end - begin, *self.shape[1:]))

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if not self.shape or self.dtype not in _TYPES or not parts or parts[0] is Ellipsis or parts[0] is None:
            whole = self._range(0, self._row["elements"], self.shape)
            return whole if index in ((), Ellipsis) else whole[index]
        first = parts[0]
        if isinstance(first, slice):
            begin, end, step = first.indices(self.shape[0])
            if step != 1:  # the rows between are read, too
                low, high = (begin, end) if step > 0 else (end + 1, begin + 1)
                rows = self._rows(low, max(low, high))
                return (rows[::step] if step > 0 or self._file.framework != "pt" else rows.flip(0)[::-step])[(slice(None), *parts[1:])]
            return self._pieces(begin, max(begin, end), parts[1:])
        if isinstance(first, numbers.Integral) and not isinstance(first, bool):  # True is a mask
            at = int(first)
            at += self.shape[0] if at < 0 else 0
            if not 0 <= at < self.shape[0]:
                raise IndexError("%s: %d is out of %d rows" % (self.name, first, self.shape[0]))
            return self._rows(at, at + 1)[(0, *parts[1:])]  # with a list behind it, the number says where its axis comes
        return self._rows(0, self.shape[0])[index]

    def _pieces(self, begin: int, end: int, rest: Tuple[Any, ...]) -> Any:
        """Rows of which columns are chosen: in pieces, so that memory holds what is chosen."""
        lists = [part for part in rest if part is not None and part is not Ellipsis and not isinstance(part, slice)]
        if not rest or (len(lists) > 1 and not all(isinstance(part, numbers.Integral) for part in lists)):  # their axis comes before the rows
            return self._rows(begin, end)[(slice(None), *rest)] if rest else self._rows(begin, end)
        row = max(1, self._row["bytes"] // max(1, self.shape[0]))
        step = max(1, _PIECE // row)
        found = [self._rows(at, min(end, at + step))[(slice(None), *rest)] for at in range(begin, end, step)] or [self._rows(begin, begin)[(slice(None), *rest)]]
        if len(found) == 1:
            return found[0].clone() if self._file.framework == "pt" else found[0].copy()
        if self._file.framework == "pt":
            import torch  # type: ignore[import-not-found, unused-ignore]
            return torch.cat(found)
        import numpy  # type: ignore[import-not-found, unused-ignore]
        return numpy.concatenate(found)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        whole = self[...]
        return whole if dtype is None else whole.astype(dtype)


class File(Mapping[str, Slice]):
    """An open checkpoint: names to slices, in the order of the file. The methods are those of safetensors' safe_open."""

    def __init__(self, checkpoint: Checkpoint, framework: str) -> None:
        self._checkpoint = checkpoint
        self.framework = framework
        self.document = checkpoint.document
        self.format: str = checkpoint.document["input"]["format"]
        self._slices = {row["name"]: Slice(self, i, row) for i, row in enumerate(checkpoint.document["tensors"])}

    def __getitem__(self, name: str) -> Slice:
        return self._slices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)

    def __len__(self) -> int:
        return len(self._slices)

    def __repr__(self) -> str:
        return "<File %s, %d tensors>" % (self.format, len(self))

    def get_slice(self, name: str) -> Slice:
        return self[name]

    def get_tensor(self, name: str) -> Any:
        """All of it."""
        return self[name][...]

    def metadata(self) -> Dict[str, str]:
        """What the file states about itself."""
        return {fact["key"]: fact["value"] for fact in self.document["facts"]}

    def read(self, tensor: int, first: int, n: int, to: bytearray) -> None:
        self._checkpoint.read(tensor, first, n, to)

    def close(self) -> None:
        """Arrays that were read stay."""
        self._checkpoint.close()

    def __enter__(self) -> "File":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_checkpoint"):
            self.close()


def open(file: Union[str, "os.PathLike[str]", BinaryIO, bytes, bytearray], framework: str = "np", device: str = "cpu", *, decode: bool = True,
         key: Optional[str] = None) -> File:
    """Opens a checkpoint of any format: a path, a file object that can seek (fsspec, S3, the hub, BytesIO), or its bytes. Codes and blocks are
    decoded to f32 as they are read; with decode=False they and their scales are as they lie in the file. framework: "np", or "pt" for
    tensors of torch.

        with vcompress.open("model.int8.npz") as file:
            file.keys(); file["fc1.weight"].shape; rows = file["fc1.weight"][10:20]
    """
    if framework not in ("np", "numpy", "pt", "torch") or device != "cpu":
        raise ValueError("framework is np or pt, and device cpu")
    source: Any = None
    name = "<file>"
    if isinstance(file, (bytes, bytearray)):
        source = Buffer(file)
    elif hasattr(file, "read") and not isinstance(file, (str, os.PathLike)):
        if not hasattr(file, "seekable") or not file.seekable() or isinstance(file, io.TextIOBase):
            raise ValueError("a file object that reads bytes and can seek is wanted")
        source = _Stream(file)
    else:
        name = os.fspath(file)
    return File(Checkpoint(name, source, key, decode), "pt" if framework in ("pt", "torch") else "np")
