"""test_statistics_hooks.py - calibrate against hooks of torch (examples/torch_statistics.py): layers of a network, and the experts of a
model of transformers."""
import collections
import os
import sys

from judge_support import Judge, main, np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))


class Hooks(Judge):
    def test_hooks_of_torch(self):
        """examples/torch_statistics.py writes what calibrate writes, and quantize takes it."""
        try:
            import torch
        except ImportError:
            self.skipTest("torch is needed")
        from torch_statistics import Statistics as Hooks
        torch.manual_seed(1)
        net = torch.nn.Sequential(collections.OrderedDict(
            c=torch.nn.Conv2d(2, 6, 3, stride=2, padding=1), r=torch.nn.ReLU(), l=torch.nn.Flatten(), f=torch.nn.Linear(96, 70)))
        x = np.random.default_rng(1).standard_normal((50, 2, 8, 8)).astype("f4")
        np.savez(self.path("w.npz"), **{k: a.numpy() for k, a in net.state_dict().items()})
        np.savez(self.path("x.npz"), x=x)
        with open(self.path("g.txt"), "w") as f:
            f.write("input x [batch, 2, 8, 8]\nconv c 6 kernel=3 stride=2 pad=1\nrelu\nflatten\nlinear f 70\n")
        self.vc("calibrate", self.path("w.npz"), "--graph", self.path("g.txt"), "--data", self.path("x.npz"), "--second-moments", "-o", self.path("s.npz"))
        with Hooks(net, second_moments=True) as hooks, torch.no_grad():
            for k in range(0, 50, 20):
                net(torch.from_numpy(x[k:k + 20]))
        hooks.save(self.path("h.npz"))
        want, found = self.load(self.path("s.npz")), dict(np.load(self.path("h.npz")))
        self.assertEqual({k for k in want if "hist" not in k and k[0] != "_" and not k.endswith(".digest")}, set(found))
        for k, a in found.items():
            self.assertEqual((a.dtype, a.shape), (want[k].dtype, want[k].shape), k)
            self.assertLessEqual(np.abs(a - want[k]).max(), 1e-5 * np.abs(a).max(), k)
        self.vc("quantize", "--int4", *("--min-elements", 1, "--min-row", 1), "--calibration", self.path("h.npz"), self.path("w.npz"), "-o", self.path("q.npz"))

    def test_experts(self):
        """Each expert's inputs are those of the tokens that reach it, as hooks of transformers see them; also with none."""
        try:
            import torch
            import transformers
        except ImportError:
            self.skipTest("transformers is needed")
        from torch_statistics import Statistics as Hooks
        torch.manual_seed(1)
        config = transformers.MixtralConfig(vocab_size=48, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                            num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2, max_position_embeddings=32)
        net = transformers.MixtralForCausalLM(config).float().eval()
        if not any(name.endswith("experts.0.w1") for name, _ in net.named_modules()):
            self.skipTest("experts are modules in transformers 4")
        with torch.no_grad():  # no token reaches the last expert of layer 1: its inputs times a vector of zeros are never the largest
            gate = net.model.layers[1].block_sparse_moe.gate.weight
            gate[4] = -20.0 * gate[:4].sum(0)
            net.model.layers[1].post_attention_layernorm.weight[:] = 0.0
            net.model.layers[1].post_attention_layernorm.weight[0] = 1.0
            gate[:, 0] = torch.tensor([1.0, -1.0, 0.5, -0.5, 0.0])
        net.save_pretrained(self.path("moe"))
        ids = np.random.default_rng(1).integers(0, 48, (10, 24))
        np.savez(self.path("ids.npz"), input_ids=ids)
        with Hooks(net, second_moments=True) as hooks, torch.no_grad():
            net(input_ids=torch.tensor(ids))
        hooks.save(self.path("h.npz"))
        found = dict(np.load(self.path("h.npz")))
        results = []
        for more in (("--batch", 3), ("--threads", 1)):
            self.vc("calibrate", self.path("moe"), "--data", self.path("ids.npz"), "--second-moments", "-f", "-o", self.path("s.npz"), *more)
            results.append(self.load(self.path("s.npz")))
        for k, a in results[0].items():
            self.assertEqual(a.tobytes(), results[1][k].tobytes(), k)
        names = {k.rpartition(".")[0] for k in results[0] if k.endswith(".counts")}
        self.assertEqual(len(names), 2 * (4 + 1 + 5 * 3) + 1)
        never = "model.layers.1.block_sparse_moe.experts.4.w%d.weight."
        for name in names:
            for tail in ("counts", "in_sum", "in_sum2", "in_min", "in_max", "in_xtx"):
                want = found.get(name + "." + tail)
                a = results[0][name + "." + tail]
                if want is None:
                    self.assertTrue(name.startswith("model.layers.1.block_sparse_moe.experts.4.") and not a.any(), name)
                else:
                    self.assertLessEqual(np.abs(a - want).max(), 5e-5 * max(np.abs(want).max(), 1e-20), name + "." + tail)
        self.assertEqual([results[0][never % k + "counts"][0] for k in (1, 2, 3)], [0, 0, 0])
        self.vc("quantize", "--int4", "--granularity", "group:32", *("--min-elements", 1, "--min-row", 1), "--calibration", self.path("s.npz"), self.path("moe"),
                "-o", self.path("q"))


if __name__ == "__main__":
    main()
