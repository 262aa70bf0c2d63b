"""A user's program, for mypy --strict: what the functions take and return is known. The lines of wrong() say which error mypy finds there."""
from typing import Dict, List

import vcompress


def work(path: str) -> List[str]:
    report = vcompress.quantize(path, "small.npz", int8=True, min_sqnr=35, exclude=["lm_head*", "*norm*"], max_bytes="4GiB", progress=False)
    rows: List[Dict[str, object]] = [dict(row) for row in report.tensors]
    answer: bool = vcompress.fit(path, gpu="RTX 4060", ctx=4096, mode="infer").ok
    vcompress.evaluate(path, data={"x": b"abcd"}, array={"x": "x"})
    small = vcompress.compress({"w": b"abcd"}, int4=True, threads=2)
    weights: vcompress.Compressed = small.decompress()
    with vcompress.open(path, framework="np") as file:
        names = [name for name in file if file[name].shape and file[name].dtype == "f32"]
    try:
        vcompress.verify(path, against="model.npz", progress=lambda p: print(p.what, p.done / p.total))
    except (vcompress.InputError, vcompress.Gate) as error:
        print(error.status, str(error))
    print(report, rows, answer, weights.dtypes)
    return names


def wrong(path: str) -> None:
    vcompress.quantize(path, int9=True)  # error: call-arg
    vcompress.quantize(path, int8="yes")  # error: arg-type
    vcompress.estimate(path, mode="trian")  # error: arg-type
    vcompress.fit(path, ctx=4096).okay  # error: attr-defined
    vcompress.quantize(path, nonfinite="ignore")  # error: arg-type
