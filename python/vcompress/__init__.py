"""vcompress: model checkpoints made smaller. Every command of the program is a function here; options are keywords.

    import vcompress

    report = vcompress.quantize("model.safetensors", "small.safetensors", int8=True, exclude=["lm_head*"])
    print(report)                                               # the table; report["totals"], report.tensors have the figures
    small = vcompress.compress(torch_model, int8=True)          # a module, arrays of NumPy, any buffer
    arrays = small.decompress()
    with vcompress.open("model.gguf") as file:                  # any format, read by slices, decoded
        rows = file["blk.0.attn_q.weight"][:16]

Options have the names of the command (vcompress quantize --help=all): --min-sqnr 40 is min_sqnr=40, --int8 is int8=True, an option
that repeats is a list. Results are dicts of the schemas of --json. Failures raise Error with the library's sentence.
"""
from ._call import Error, Gate, InputError, Progress, Report, SystemFailure, UsageError
from ._commands import (calibrate, compress, convert, dequantize, devices, diff, distill, estimate, evaluate, fit, gpus, graph, index, inspect, logits, merge, plan,
                        prune, quantize, run, selftest, sensitivity, shrink, verify)
from ._reader import File, Slice, open
from ._network import Network, network
from ._run import Compressed

__all__ = ["shrink", "quantize", "prune", "distill", "run", "merge", "dequantize", "convert", "index", "inspect", "graph", "evaluate", "logits", "calibrate",
           "sensitivity", "diff", "verify", "selftest", "devices", "gpus", "estimate", "fit", "plan", "compress", "Compressed", "Network", "network", "open", "File", "Slice",
           "Report", "Progress", "Error", "Gate", "UsageError", "InputError", "SystemFailure"]
__version__ = "@VERSION@"
