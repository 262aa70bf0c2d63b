"""make_pt.py FILE SPEC... - small PyTorch files with fixed contents, with Python's standard library alone.

SPEC is KEY=STORAGE:SHAPE[:STRIDES[:OFFSET]], for instance state_dict.fc.weight=0:64x128, or state_dict.t=0:128x64:1x128
for its transpose. STORAGE is a number; tensors of one number share elements. A point in KEY opens a dict, and a part
that is a whole number is a key of that type: optimizer.state.0.exp_avg=1:64x128. With "quantized" or "sparse" as STORAGE the
tensor is one that PyTorch makes of two or more: codes with a scale, values with their places; with "numpy" it is NumPy's
array, which needs that package.
"""

import io
import pickle
import struct
import sys
import types
import zipfile


class Storage:
    def __init__(self, key):
        self.key, self.n = key, 0


class FloatStorage:
    pass


def rebuild(*args):
    raise RuntimeError("nothing reads this back")


# The names that the pickle refers to have to be found when it is written.
torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
FloatStorage.__module__, rebuild.__module__ = "torch", "torch._utils"
rebuild.__name__ = rebuild.__qualname__ = "_rebuild_tensor_v2"
torch.FloatStorage, utils._rebuild_tensor_v2 = FloatStorage, rebuild


class Tensor:
    def __init__(self, storage, shape, strides, offset):
        self.args = (storage, offset, shape, strides, False, {})

    def __reduce__(self):
        return rebuild, self.args


class Made:
    """What another function of torch._utils makes of a tensor."""

    def __init__(self, name, *args):
        def made(*args):
            raise RuntimeError("nothing reads this back")
        made.__module__, made.__name__, made.__qualname__ = "torch._utils", name, name
        self.made, self.args = utils.__dict__.setdefault(name, made), args

    def __reduce__(self):
        return self.made, self.args


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FloatStorage, obj.key, "cpu", obj.n) if isinstance(obj, Storage) else None


def numbers(text):
    return tuple(int(x) for x in text.split("x"))


def main():
    storages, root = {}, {}
    for spec in sys.argv[2:]:
        keys, what = spec.split("=")
        storage, shape, *rest = what.split(":")
        shape = numbers(shape)
        strides = [1]
        for dim in shape[:0:-1]:
            strides.insert(0, strides[0] * dim)
        strides = numbers(rest[0]) if rest else tuple(strides)
        offset = int(rest[1]) if len(rest) > 1 else 0
        target = storages.setdefault(storage, Storage(storage))
        target.n = max(target.n, offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides)))
        at, parts = root, [int(k) if k.isdigit() else k for k in keys.split(".")]
        if parts[0] == "state_dict":  # names of weights have points in them
            parts = ["state_dict", ".".join(keys.split(".")[1:])]
        for key in parts[:-1]:
            at = at.setdefault(key, {})
        at[parts[-1]] = made = Tensor(target, shape, strides, offset)
        if storage == "quantized":
            at[parts[-1]] = Made("_rebuild_qtensor", target, offset, shape, strides, ("per_tensor_affine", 0.1, 0))
        elif storage == "numpy":
            import numpy
            at[parts[-1]] = numpy.ones(shape, "f4")
        elif storage == "sparse":
            at[parts[-1]] = Made("_rebuild_sparse_tensor", "coo", (made, made, (1000, 1000)))
    text = io.BytesIO()
    Pickler(text, protocol=2).dump(root)
    with zipfile.ZipFile(sys.argv[1], "w") as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", "little")
        for storage in storages.values():
            values = [(i * 7919 % 2003 - 1001) / 1024 for i in range(storage.n)]
            archive.writestr("archive/data/" + storage.key, struct.pack("<%df" % storage.n, *values))
        archive.writestr("archive/version", "3\n")


main()
