"""Arrays in memory as a safetensors file that nobody has written: a header, and the arrays where they are."""
from __future__ import annotations

import bisect
import ctypes
import json
import struct
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

_OF_FORMAT = {"e2": "F16", "f4": "F32", "d8": "F64", "?1": "BOOL"}
_OF_NAME = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}  # ml_dtypes
_OF_DLPACK = {(2, 16): "F16", (2, 32): "F32", (2, 64): "F64", (4, 16): "BF16", (6, 8): "BOOL", (10, 8): "F8_E4M3", (12, 8): "F8_E5M2",
              (14, 8): "F8_E8M0"}
# What NumPy has no type for comes back as its bits.
_TO_FORMAT = {"F16": "e", "F32": "f", "F64": "d", "BOOL": "?", "I8": "b", "U8": "B", "I16": "h", "U16": "H", "I32": "i", "U32": "I",
              "I64": "q", "U64": "Q", "BF16": "H", "F8_E4M3": "B", "F8_E5M2": "B", "F8_E8M0": "B", "C64": "Q"}


# What compress() takes: arrays by name, or a module of torch, whose state dictionary they are.
Weights = Union[Mapping[str, Any], Any]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Array:
    """dtype, shape and bytes of an array; `keep` is what the bytes belong to."""

    def __init__(self, dtype: str, shape: Tuple[int, ...], view: memoryview, keep: Any) -> None:
        self.dtype, self.shape, self.view, self.keep = dtype, shape, view, keep


def _integer(kind: str, n_bytes: int) -> str:
    return kind + str(8 * n_bytes)


def _of_buffer(name: str, array: Any) -> _Array:
    try:
        view = memoryview(array)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from error
    if not view.c_contiguous:
        if not hasattr(array, "copy"):
            raise TypeError(f"{name}: the buffer is not contiguous")
        view = memoryview(array.copy(order="C"))
    order, letter = (view.format[0], view.format[1:]) if view.format[0] in "@=<>!" else ("@", view.format)
    if order in ">!" and view.itemsize > 1 and sys.byteorder == "little":
        raise TypeError(f"{name}: the buffer is big-endian")
    dtype = _OF_FORMAT.get(f"{letter}{view.itemsize}")
    if dtype is None and letter in "bhilq":
        dtype = _integer("I", view.itemsize)
    if dtype is None and letter in "BHILQ":
        dtype = _integer("U", view.itemsize)
    if dtype is None:
        raise TypeError(f"{name}: elements of the format '{view.format}' cannot be stored")
    shape = tuple(view.shape or ())
    if view.nbytes == 0:
        return _Array(dtype, shape, memoryview(b""), array)
    if view.ndim == 0:
        return _Array(dtype, (), memoryview(view.tobytes()), array)
    return _Array(dtype, shape, view.cast("B"), array)


def _of_dlpack(name: str, array: Any) -> _Array:
    if getattr(array, "requires_grad", False):
        array = array.detach()
    if array.__dlpack_device__()[0] != 1:
        raise TypeError(f"{name}: is on a device; give a copy in the memory of the CPU")
    if hasattr(array, "contiguous"):
        array = array.contiguous()  # torch: itself where it is
    capsule = array.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    n = 1
    for i in reversed(range(t.ndim)):
        if t.strides and shape[i] > 1 and t.strides[i] != n:
            raise TypeError(f"{name}: the tensor is not contiguous")
        n *= shape[i]
    dtype = _OF_DLPACK.get((t.code, t.bits)) or {0: _integer("I", t.bits // 8), 1: _integer("U", t.bits // 8)}.get(t.code)
    if dtype is None or t.lanes != 1:
        raise TypeError(f"{name}: elements of DLPack's type {t.code}, {t.bits} bits, cannot be stored")
    n_bytes = n * t.bits // 8
    view = memoryview((ctypes.c_char * n_bytes).from_address(t.data + t.byte_offset)).cast("B") if n_bytes else memoryview(b"")
    return _Array(dtype, shape, view, (array, capsule))


def _array(name: str, array: Any) -> _Array:
    kind = str(getattr(array, "dtype", ""))
    if kind in _OF_NAME and hasattr(array, "view"):
        found = _of_buffer(name, array.view("u2" if kind == "bfloat16" else "u1"))
        found.dtype = _OF_NAME[kind]
        return found
    try:
        return _of_buffer(name, array)
    except TypeError:
        if hasattr(array, "astype") and str(getattr(array, "dtype", "")).startswith(">"):
            return _of_buffer(name, array.astype(array.dtype.newbyteorder("<")))
        if not hasattr(array, "__dlpack__") or hasattr(array, "__array_interface__"):
            raise
    try:
        return _of_dlpack(name, array)
    except (BufferError, RuntimeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from error


def as_tensors(weights: Weights) -> Tuple[Mapping[str, Any], bool]:
    """The arrays by name, and whether they are tensors of torch. Tensors on a device are copied to the CPU."""
    if not isinstance(weights, Mapping):
        if not hasattr(weights, "state_dict"):
            raise TypeError("arrays by name are wanted, or a module with a state_dict()")
        weights = weights.state_dict()
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(value, torch.Tensor) for value in weights.values()):
        return weights, False
    return {name: value.detach().cpu() if isinstance(value, torch.Tensor) else value for name, value in weights.items()}, True


class Arrays:
    """A source for call(): the file that these arrays would be."""

    def __init__(self, arrays: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
        header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        self._pieces: List[memoryview] = []
        self._starts: List[int] = []
        self._keep = []
        at = 0
        for name, array in arrays.items():
            found = _array(name, array)
            if name == "__metadata__":
                raise ValueError("no array can be called __metadata__")
            header[name] = {"dtype": found.dtype, "shape": list(found.shape), "data_offsets": [at, at + found.view.nbytes]}
            self._pieces.append(found.view)
            self._starts.append(at)
            self._keep.append(found.keep)
            at += found.view.nbytes
        text = json.dumps(header, ensure_ascii=False).encode("utf-8")
        text += b" " * (-len(text) % 8)
        head = memoryview(struct.pack("<Q", len(text)) + text)
        self._starts = [0] + [head.nbytes + start for start in self._starts]
        self._pieces.insert(0, head)
        self.size = head.nbytes + at

    def save(self, path: str) -> None:
        with open(path, "wb") as file:
            for piece in self._pieces:
                file.write(piece)

    def read(self, offset: int, to: memoryview) -> None:
        k = bisect.bisect_right(self._starts, offset) - 1
        while to.nbytes:
            begin = offset - self._starts[k]
            part = self._pieces[k][begin:begin + to.nbytes]
            to[:part.nbytes] = part
            to = to[part.nbytes:]
            offset += part.nbytes
            k += 1


class Buffer:
    """A source or a target: a file in memory."""

    def __init__(self, data: Any = b"") -> None:
        self.data = data
        self.size = len(data)
        self.complete = False

    def read(self, offset: int, to: memoryview) -> None:
        to[:] = memoryview(self.data)[offset:offset + to.nbytes]

    def begin(self, size: int) -> None:
        self.data = bytearray(size)

    def write(self, offset: int, part: memoryview) -> None:
        self.data[offset:offset + part.nbytes] = part

    def commit(self) -> None:
        self.complete = True


def parse(data: Any) -> Iterator[Tuple[str, str, Tuple[int, ...], memoryview]]:
    """Name, dtype, shape and bytes of the tensors of a safetensors file."""
    n = struct.unpack_from("<Q", data)[0]
    header = json.loads(bytes(memoryview(data)[8:8 + n]))
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, entry["dtype"], tuple(entry["shape"]), memoryview(data)[8 + n + begin:8 + n + end]


def _to_tensor(dtype: str, shape: Tuple[int, ...], view: memoryview) -> Any:
    """A tensor of torch over these bytes, where torch has the type; packed codes are bytes."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16",
             "I32": "int32", "I64": "int64", "U16": "uint16", "U32": "uint32", "U64": "uint64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
             "F8_E8M0": "float8_e8m0fnu", "C64": "complex64"}
    kind = getattr(torch, names.get(dtype, "uint8"), torch.uint8)
    if view.nbytes == 0:
        return torch.empty(shape, dtype=kind)
    flat = torch.frombuffer(view if not view.readonly else bytearray(view), dtype=torch.uint8).view(kind)
    n = 1
    for size in shape:
        n *= size
    return flat.reshape(shape if flat.numel() == n else (flat.numel(),))


def to_array(dtype: str, shape: Tuple[int, ...], view: memoryview, torch: bool = False) -> Any:
    """An array of NumPy over these bytes, or a memoryview where there is no NumPy; with `torch` a tensor."""
    if torch:
        return _to_tensor(dtype, shape, view)
    letter = _TO_FORMAT.get(dtype, "B")
    n = 1
    for size in shape:
        n *= size
    if view.nbytes != n * struct.calcsize("<" + letter.replace("?", "B")):  # packed codes
        letter, shape = "B", (view.nbytes,)
    try:
        import numpy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        cast: Any = view.cast
        return cast(letter, shape) if view.nbytes and shape else cast(letter)
    return numpy.frombuffer(view, dtype=numpy.dtype(letter).newbyteorder("<")).reshape(shape)
