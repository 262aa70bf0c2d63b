"""casts_on_torch.py - what bench_device.cu measures, by PyTorch on the same card: casts, and int8 and fp8 codes with a scale
per row, written in PyTorch and compiled. Prints a Markdown table; GB/s counts every byte read and written once."""
import torch

N = 1 << 26


def median_ms(work, times=30):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    took = []
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end))
    return sorted(took)[len(took) // 2]


def int8_rows(x):
    scale = x.abs().amax(1, keepdim=True) / 127
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def fp8_rows(x):
    scale = x.abs().amax(1, keepdim=True) / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def main():
    x = torch.randn(N // 4096, 4096, device="cuda")
    y = torch.empty_like(x)
    half = x.half()
    print("| PyTorch %s | ms | GB/s |\n|---|---:|---:|" % torch.__version__)
    rows = [("copy of f32", 8, lambda: y.copy_(x)), ("f32 to f16", 6, lambda: x.to(torch.float16)),
            ("f32 to bf16", 6, lambda: x.to(torch.bfloat16)), ("f16 to f32", 6, lambda: half.to(torch.float32)),
            ("largest magnitude of rows of 4096", 4, lambda: x.abs().amax(1)), ("int8 of rows of 4096", 5, lambda: int8_rows(x))]
    for row_len in (128, 1024, 4096):
        for name, function in (("int8", int8_rows), ("fp8", fp8_rows)):
            view, compiled = x.view(-1, row_len), torch.compile(function, dynamic=False)
            rows.append(("%s of rows of %d, compiled" % (name, row_len), 5, lambda view=view, compiled=compiled: compiled(view)))
    for name, width, work in rows:
        ms = median_ms(work)
        print("| %s | %.3f | %.0f |" % (name, ms, width * N / 1e6 / ms), flush=True)


main()
