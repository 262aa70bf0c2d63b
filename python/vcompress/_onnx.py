"""An ONNX file from nodes and arrays. The messages of protobuf are written by hand, since Python's package onnx is not needed for anything
else here; onnx.proto3 has the numbers of the fields. Nothing of torch is known here.

    File:  ModelProto {ir_version, producer, graph, opset_import}      values of tensors follow in place, or, of more than
    graph: GraphProto {nodes, name, initializers, inputs, outputs}     ONE_FILE bytes, in FILE.data, as external_data says it"""
from __future__ import annotations

import builtins
import os
import struct
from typing import Any, Dict, Iterable, List, Sequence, Tuple, Union

OPSET = 23
ONE_FILE = 1 << 30  # a message of protobuf has less than 2 GiB
# TensorProto.DataType by the types' names in safetensors
TYPES = {"F32": 1, "U8": 2, "I8": 3, "U16": 4, "I16": 5, "I32": 6, "I64": 7, "BOOL": 9, "F16": 10, "F64": 11, "U32": 12, "U64": 13, "BF16": 16,
         "F8_E4M3": 17, "F8_E5M2": 19}

Dims = Sequence[Union[int, str]]  # a word is the name of an open size


def _varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _field(number: int, value: Union[int, float, str, bytes]) -> bytes:
    """A field by the type of its value: a varint, 32 bits, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: Any) -> bytes:
    """AttributeProto: a number, a word, or a list of one kind."""
    several = isinstance(value, (list, tuple))
    first = (value[0] if value else 0) if several else value
    one, many, kind = {int: (3, 8, 2), float: (2, 7, 1), str: (4, 9, 3)}[type(first)]
    if several:
        return _field(1, name) + b"".join(_field(many, part) for part in value) + _field(20, kind + 5)
    return _field(1, name) + _field(one, value) + _field(20, kind)


def _value(name: str, dtype: str, dims: Dims) -> bytes:
    """ValueInfoProto of a tensor; "": a size that is not said."""
    shape = b"".join(_field(1, b"" if size == "" else _field(2, size) if isinstance(size, str) else _field(1, size)) for size in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, TYPES[dtype]) + _field(2, shape)))


class Graph:
    """What becomes the file. Names of values are the caller's."""

    def __init__(self) -> None:
        self._nodes: List[bytes] = []
        self._values: List[bytes] = []
        self._tensors: Dict[str, Tuple[str, Sequence[int], memoryview]] = {}

    def input(self, name: str, dtype: str, dims: Dims) -> None:
        self._values.append(_field(11, _value(name, dtype, dims)))

    def output(self, name: str, dtype: str, rank: int) -> None:
        self._values.append(_field(12, _value(name, dtype, [""] * rank)))

    def tensor(self, name: str, dtype: str, shape: Sequence[int], view: memoryview) -> None:
        """An initializer; its bytes have to stay until the file is written."""
        self._tensors[name] = (dtype, shape, view)

    def node(self, op: str, inputs: Iterable[str], outputs: Iterable[str], name: str, attributes: Dict[str, Any]) -> None:
        """"" is an input that is left out."""
        self._nodes.append(_field(1, b"".join(_field(1, one) for one in inputs) + b"".join(_field(2, one) for one in outputs) + _field(3, name)
                                  + _field(4, op) + b"".join(_field(5, _attribute(key, value)) for key, value in attributes.items())))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        beside = sum(view.nbytes for _, _, view in self._tensors.values()) > ONE_FILE
        path, at = os.fspath(path), 0
        pieces: List[Tuple[bytes, memoryview]] = []  # a message of an initializer, whose last field are the bytes that follow
        for name, (dtype, shape, view) in self._tensors.items():
            head = b"".join(_field(1, size) for size in shape) + _field(2, TYPES[dtype]) + _field(8, name)
            if beside:
                at += -at % 64
                places = {"location": os.path.basename(path) + ".data", "offset": str(at), "length": str(view.nbytes)}
                head += b"".join(_field(13, _field(1, key) + _field(2, text)) for key, text in places.items()) + _field(14, 1)
                at += view.nbytes
            else:
                head += _varint(9 << 3 | 2) + _varint(view.nbytes)
            pieces.append((_varint(5 << 3 | 2) + _varint(len(head) + (0 if beside else view.nbytes)) + head, view))
        nodes = b"".join(self._nodes) + _field(2, "torch")
        values = b"".join(self._values)
        n_graph = len(nodes) + len(values) + sum(len(head) + (0 if beside else view.nbytes) for head, view in pieces)
        with builtins.open(path, "wb") as file:
            file.write(_field(1, 10) + _field(2, "vcompress") + _field(8, _field(2, OPSET)) + _varint(7 << 3 | 2) + _varint(n_graph) + nodes)
            for head, view in pieces:
                file.write(head)
                if not beside:
                    file.write(view)
            file.write(values)
        if beside:
            with builtins.open(path + ".data", "wb") as file:
                for _, view in pieces:
                    file.write(bytes(-file.tell() % 64))
                    file.write(view)
