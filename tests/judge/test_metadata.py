"""test_metadata.py - --metadata KEY=VALUE: what the gguf package, the header of safetensors and onnx read of it; what is refused."""
import json
import os
import struct
import unittest

from judge_support import Judge, main, np
from test_safetensors import st_read, st_write

try:
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
except ImportError as missing:
    GGUFReader = None
    print("gguf does not judge: %s" % missing)
try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as missing:
    onnx = None
    print("onnx does not judge: %s" % missing)

W = np.linspace(-1, 1, 64 * 64).astype("f4").reshape(64, 64)


def entries(values):
    return [a for v in values for a in ("--metadata", v)]


class Metadata(Judge):
    def test_safetensors(self):
        st_write(self.path("in.safetensors"), [("a.weight", "F32", W.shape, W.tobytes())], {"format": "pt", "author": "old", "kept": "é"})
        for command in (["convert"], ["quantize", "--int8"], ["prune", "--sparsity", "0.5"], ["run", "--pass", "prune --sparsity 0.5", "--pass", "quantize --fp16"]):
            self.vc(*command, "--force", *entries(["author=new = \"x\"", "url=u32:7", "empty="]), self.path("in.safetensors"), "-o", self.path("out.safetensors"))
            got = st_read(self.path("out.safetensors"))[1]
            self.assertEqual({k: v for k, v in got.items() if not k.startswith("vcompress")},
                             {"format": "pt", "kept": "é", "author": "new = \"x\"", "url": "u32:7", "empty": ""}, command)
        self.vc("convert", "--force", *entries(["format=mlx"]), self.path("in.safetensors"), "-o", self.path("out.safetensors"))
        self.assertEqual(st_read(self.path("out.safetensors"))[1]["format"], "mlx")
        # Each file of a folder.
        os.makedirs(self.path("folder"))
        for i in (1, 2):
            st_write(self.path("folder/model-%05d-of-00002.safetensors" % i), [("w%d.weight" % i, "F32", W.shape, W.tobytes())], {"format": "pt"})
        with open(self.path("folder/model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {"total_size": 2 * W.nbytes}, "weight_map": {"w%d.weight" % i: "model-%05d-of-00002.safetensors" % i for i in (1, 2)}}, f)
        self.vc("convert", *entries(["run=7"]), self.path("folder"), "-o", self.path("other"))
        for i in (1, 2):
            self.assertEqual(st_read(self.path("other/model-%05d-of-00002.safetensors" % i))[1]["run"], "7")

    def test_refused(self):
        st_write(self.path("in.safetensors"), [("a.weight", "F32", W.shape, W.tobytes())], {"format": "pt"})
        np.savez(self.path("in.npz"), **{"a.weight": W})
        for values, source, sentence in ((["vcompress.json=x"], "in.safetensors", "'vcompress.json' is written by vcompress itself"),
                                         (["a=1", "a=2"], "in.safetensors", "'a' is given twice"), (["a=1"], "in.npz", "has none"),
                                         (["=1"], "in.npz", "KEY=VALUE"), (["a"], "in.npz", "KEY=VALUE")):
            self.assertIn(sentence, self.refuse(2, "convert", *entries(values), self.path(source), "-o", self.path("no" + source[2:])))
        self.no_strays("in.safetensors", "in.npz")

    @unittest.skipIf(GGUFReader is None, "no gguf")
    def test_gguf(self):
        w = GGUFWriter(self.path("in.gguf"), "llama")
        w.add_uint32("llama.block_count", 1)
        w.add_float32("llama.rope.freq_base", 10000.0)
        w.add_string("general.name", "old")
        w.add_bool("tokenizer.ggml.add_bos_token", True)
        w.add_array("tokenizer.ggml.tokens", ["a", "b"])
        w.add_int64("x.wide", -5)
        w.add_file_type(0)
        w.add_tensor("blk.0.ffn_up.weight", W)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        given = ["general.name=a new name", "llama.rope.freq_base=1e6", "tokenizer.ggml.add_bos_token=false", "x.wide=-9007199254740993",
                 "llama.context_length=u32:8192", "general.url=str:u8:7", "x.f64=f64:0.1", "x.small=i8:-128", "x.int=int:3", "x.float=float:0.5", "x.text=plain",
                 "llama.block_count=u64:1"]
        T = GGUFValueType if GGUFReader else None
        want = {"general.name": (T.STRING, "a new name"), "llama.rope.freq_base": (T.FLOAT32, 1e6), "tokenizer.ggml.add_bos_token": (T.BOOL, False),
                "x.wide": (T.INT64, -9007199254740993), "llama.context_length": (T.UINT32, 8192), "general.url": (T.STRING, "u8:7"), "x.f64": (T.FLOAT64, 0.1),
                "x.small": (T.INT8, -128), "x.int": (T.UINT32, 3), "x.float": (T.FLOAT32, 0.5), "x.text": (T.STRING, "plain"), "llama.block_count": (T.UINT64, 1)}
        for command in (["convert"], ["quantize", "--gguf", "Q8_0"], ["prune", "--sparsity", "0.5"]):
            self.vc(*command, "--force", *entries(given), self.path("in.gguf"), "-o", self.path("out.gguf"))
            r = GGUFReader(self.path("out.gguf"))
            for key, (kind, value) in want.items():
                field = r.fields[key]
                self.assertEqual((field.types[0], field.contents()), (kind, value), key)
            self.assertEqual(r.fields["tokenizer.ggml.tokens"].contents(), ["a", "b"])
            self.assertEqual(r.fields["general.architecture"].contents(), "llama")
            self.vc("verify", "--data", self.path("out.gguf"))
            # Once more: the file that has them all is the same.
            self.vc("convert", "--force", *entries(given), self.path("out.gguf"), "-o", self.path("again.gguf"))
            with open(self.path("out.gguf"), "rb") as a, open(self.path("again.gguf"), "rb") as b:
                self.assertEqual(a.read(), b.read())
        for value, sentence in (("general.file_type=u32:1", "vcompress itself"), ("split.count=u16:2", "vcompress itself"), ("tokenizer.ggml.tokens=a", "is a list"),
                                ("llama.block_count=two", "is no value of u32"), ("x=u8:256", "is no value of u8"), ("x=i8:-129", "is no value of i8"),
                                ("x=u64:-1", "is no value of u64"), ("x=f32:1e39", "is no value of f32"), ("x=bool:yes", "is no value of bool")):
            self.assertIn(sentence, self.refuse(2, "convert", *entries([value]), self.path("in.gguf"), "-o", self.path("no.gguf")))
        self.assertFalse(os.path.exists(self.path("no.gguf")))
        # From another format, whose file has no pairs.
        st_write(self.path("in.safetensors"), [("a.weight", "F32", W.shape, W.tobytes())], {"format": "pt"})
        self.vc("convert", *entries(["general.name=x", "n=u16:7"]), self.path("in.safetensors"), "-o", self.path("made.gguf"))
        r = GGUFReader(self.path("made.gguf"))
        self.assertEqual((r.fields["general.name"].contents(), r.fields["n"].contents(), r.fields["n"].types[0]), ("x", 7, GGUFValueType.UINT16))

    @unittest.skipIf(onnx is None, "no onnx")
    def test_onnx(self):
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [1, 64])],
                                  [helper.make_tensor_value_info("y", 1, [1, 64])], [numpy_helper.from_array(W, "w")])
        model = helper.make_model(graph)
        helper.set_model_props(model, {"author": "old", "kept": "1"})
        onnx.save(model, self.path("in.onnx"))
        for command in (["convert"], ["quantize", "--int8"]):
            self.vc(*command, "--force", *entries(["author=new", "classes=a,b=c"]), self.path("in.onnx"), "-o", self.path("out.onnx"))
            props = {p.key: p.value for p in onnx.load(self.path("out.onnx")).metadata_props}
            self.assertEqual({k: v for k, v in props.items() if not k.startswith("vcompress")}, {"author": "new", "kept": "1", "classes": "a,b=c"})


if __name__ == "__main__":
    main()
