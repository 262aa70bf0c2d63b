"""torch_statistics.py - what the layers of a torch model get to see, in a file for `vcompress quantize --calibration` and
`prune --calibration`: for models whose graph vcompress does not know. Needs torch and NumPy.

    with Statistics(model, second_moments=True) as statistics, torch.no_grad():
        for x in batches:
            model(x)
    statistics.save("stats.npz")

The arrays are those of docs/formats.md, section 16, without histograms. Linear layers, Conv1d to Conv3d without dilation
and with padding by zeros, Conv1D of transformers. Tokens of padding: set statistics.mask to the attention mask of the batch.
"""
import numpy as np
import torch


def windows(x, module):
    """Vectors of all windows of a convolution: channel after channel, in each the elements of the window."""
    n = len(module.kernel_size)
    x = torch.nn.functional.pad(x, [p for p in reversed(module.padding) for _ in range(2)])
    for d in range(n):
        x = x.unfold(d + 2, module.kernel_size[d], module.stride[d])
    x = x.permute(0, *range(2, 2 + n), 1, *range(2 + n, 2 + 2 * n))
    return x.reshape(-1, x[0][(0,) * n].numel())


class Statistics:
    def __init__(self, model, second_moments=False):
        self.model, self.second_moments = model, second_moments
        self.mask, self.layers = None, {}

    def __enter__(self):
        names = {id(p): name for name, p in self.model.named_parameters()}  # of tied weights that of the file
        self.hooks = [module.register_forward_pre_hook(self.watch(names[id(module.weight)], module)) for _, module in self.model.named_modules()
                      if isinstance(module, (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d))
                      or type(module).__name__ == "Conv1D"]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def watch(self, name, module):
        is_conv = hasattr(module, "kernel_size")
        if is_conv and (set(module.dilation) != {1} or module.padding_mode != "zeros" or isinstance(module.padding, str)):
            raise ValueError(name + ": dilation and such padding are not done here")

        def see(_, inputs):
            x = inputs[0].detach().double()
            if is_conv:
                x = windows(x, module)
            elif self.mask is not None and x.shape[:-1] == self.mask.shape:
                x = x[self.mask.bool()]
            x = x.reshape(-1, x.shape[-1])
            if len(x) == 0:  # no token reaches this expert
                return
            new = {"counts": torch.tensor([float(len(x))]), "in_sum": x.sum(0), "in_sum2": (x * x).sum(0),
                   "in_min": x.min(0)[0], "in_max": x.max(0)[0]}
            if self.second_moments and (not is_conv or module.groups == 1):
                new["in_xtx"] = x.T @ x
            if not all(torch.isfinite(a).all() for a in new.values()):
                raise ValueError(name + ": an input is NaN or infinite")
            old = self.layers.setdefault(name, (module, new))[1]
            if old is not new:
                for k, a in new.items():
                    old[k] = torch.minimum(old[k], a) if k == "in_min" else torch.maximum(old[k], a) if k == "in_max" else old[k] + a
        return see

    def save(self, path):
        arrays = {}
        for name, (module, sums) in self.layers.items():
            for k, a in sums.items():
                arrays[name + "." + k] = a.cpu().numpy().astype("f4" if k in ("in_min", "in_max") else "f8")
            w = module.weight.detach().reshape(-1)[:4096].float().cpu().numpy()
            arrays[name + ".sample"] = w[::max(1, len(w) // 64)][:64].copy()
            if type(module).__name__ == "Conv1D":
                arrays[name + ".in_axis"] = np.zeros(1, "i8")
        np.savez(path, **arrays)
