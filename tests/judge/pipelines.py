"""pipelines.py - small random pipelines of diffusers: does DiffusionPipeline.from_pretrained make the picture it should of
what vcompress wrote?

    pipelines.py              every pipeline below
    pipelines.py sd flux      these

VCOMPRESS_PROGRAM names the program. Each pipeline is saved with random weights in one of the ways in which they are found
(one file a model, variants, shards, PyTorch files), and made fp16, bf16, int8, and int8 with the rest as fp16, in one run
each. Of casts the picture has to be that of the source, loaded and cast in memory, to the last bit; of int8 the relative
error of the picture stays below MOST. What the report says has to be passed to a loader is passed.

Exit status 77: there is no diffusers, or no transformers.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")
try:
    import diffusers  # first: where it is missing, nobody waits for the others
    import torch
    import transformers
except ImportError as error:
    print("SKIPPED: %s (%s)" % (error, sys.executable))
    sys.exit(77)
transformers.logging.set_verbosity_error()
diffusers.logging.set_verbosity(diffusers.logging.CRITICAL)
diffusers.logging.disable_progress_bar()
transformers.logging.disable_progress_bar()

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
MOST = 0.05
SIZE = dict(height=16, width=16)


# ---- the pipelines --------------------------------------------------------------------------------------------------
def tokenizer(folder):
    letters = ["<|startoftext|>", "<|endoftext|>", "a", "b", "c", "a</w>", "b</w>", "c</w>"]
    os.makedirs(folder)
    with open(os.path.join(folder, "vocab.json"), "w") as f:
        json.dump({word: i for i, word in enumerate(letters)}, f)
    with open(os.path.join(folder, "merges.txt"), "w") as f:
        f.write("#version: 0.2\n")
    return transformers.CLIPTokenizer(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt"),
                                      model_max_length=16)


def clip():
    return transformers.CLIPTextModel(transformers.CLIPTextConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=16, bos_token_id=0, eos_token_id=1, pad_token_id=1))


def t5():
    return transformers.T5EncoderModel(transformers.T5Config(
        vocab_size=64, d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4))


def vae(channels):
    return diffusers.AutoencoderKL(
        block_out_channels=[32, 64], in_channels=3, out_channels=3, down_block_types=["DownEncoderBlock2D"] * 2,
        up_block_types=["UpDecoderBlock2D"] * 2, latent_channels=channels, norm_num_groups=32, shift_factor=0.1)


def unet():
    return diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=64, attention_head_dim=8)


def stable_diffusion(work):
    return diffusers.StableDiffusionPipeline(
        vae=vae(4), text_encoder=clip(), tokenizer=tokenizer(os.path.join(work, "tokenizer")), unet=unet(),
        scheduler=diffusers.DDIMScheduler(), safety_checker=None, feature_extractor=None, requires_safety_checker=False)


def flux(work):
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=t5_tokenizer(os.path.join(work, "t5.json")), pad_token="<pad>", eos_token="</s>", model_max_length=16)
    return diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), vae=vae(4), text_encoder=clip(),
        tokenizer=tokenizer(os.path.join(work, "tokenizer")), text_encoder_2=t5(), tokenizer_2=fast,
        transformer=diffusers.FluxTransformer2DModel(
            patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=4,
            joint_attention_dim=64, pooled_projection_dim=64, axes_dims_rope=(4, 4, 8)))


def t5_tokenizer(path):
    words = {"type": "WordLevel", "vocab": {"<pad>": 0, "</s>": 1, "a": 2, "b": 3}, "unk_token": "<pad>"}
    with open(path, "w") as f:
        json.dump({"version": "1.0", "added_tokens": [], "model": words, "pre_tokenizer": {"type": "Whitespace"}}, f)
    return path


def dit(work):
    model = diffusers.DiTTransformer2DModel(
        sample_size=8, num_layers=2, patch_size=4, attention_head_dim=16, num_attention_heads=4, in_channels=4, out_channels=8,
        attention_bias=True, activation_fn="gelu-approximate", num_embeds_ada_norm=1000, norm_type="ada_norm_zero",
        norm_elementwise_affine=False)
    return diffusers.DiTPipeline(transformer=model, vae=vae(4), scheduler=diffusers.DDIMScheduler())


# name: how it is made, what it is asked for, how it is saved, what from_pretrained is told
TEXT = dict(prompt="a b", output_type="np", **SIZE)
KINDS = {
    "sd": (stable_diffusion, TEXT, {}, {}),
    "sd-variant": (stable_diffusion, TEXT, {"variant": "fp16"}, {"variant": "fp16"}),
    "sd-bin": (stable_diffusion, TEXT, {"safe_serialization": False}, {}),
    "sd-shards": (stable_diffusion, TEXT, {"max_shard_size": "200KB"}, {}),
    "sd-variant-shards": (stable_diffusion, TEXT, {"variant": "fp16", "max_shard_size": "200KB"}, {"variant": "fp16"}),
    "flux": (flux, dict(TEXT, max_sequence_length=8), {}, {}),
    "dit": (dit, dict(class_labels=[1], output_type="np"), {}, {}),
}


# ---- one pipeline ---------------------------------------------------------------------------------------------------
def picture(pipeline, asked):
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline(num_inference_steps=2, generator=torch.Generator().manual_seed(3), **asked).images
    return torch.from_numpy(images).double()


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


class Names(dict):
    """Classes of transformers, as the report names them."""
    def __missing__(self, name):
        return getattr(transformers, name)


def needed(report):
    """{component: {argument: value}} of "text_encoder_2: quantization_config=CompressedTensorsConfig(dequantize=True)"."""
    parts = {}
    for text in (report["outputs"][0]["layout"]["needs"] or "").split("; ") if report["outputs"][0]["layout"] else []:
        if text:
            name, expression = text.split(": ", 1)
            argument, value = expression.split("=", 1)
            parts[name] = {argument: eval(value, {}, Names())}
    return parts


def load(path, told, report=None, dtype=None):
    """The pipeline, with the components that a loader has to be told about."""
    with open(os.path.join(path, "model_index.json")) as f:
        index = json.load(f)
    parts = {}
    for name, arguments in needed(report).items() if report else ():
        model = getattr(transformers, index[name][1])
        parts[name] = model.from_pretrained(os.path.join(path, name), dtype=dtype, **arguments)
    return diffusers.DiffusionPipeline.from_pretrained(path, torch_dtype=dtype, **parts, **told)


def in_memory(path, told, dtype):
    """The source as its loader has it, cast in memory. (With a type given, T5 would keep some layers as f32.)"""
    return diffusers.DiffusionPipeline.from_pretrained(path, **told).to(dtype)


def cast(work, source, flag, dtype, asked, told, extra=()):
    out = os.path.join(work, "out" + flag + "".join(extra))
    status, text, error = run("quantize", flag, source, "-o", out, "--json", *extra)
    if status != 0:
        return "exit status %d: %s" % (status, error)
    want = picture(in_memory(source, told, dtype), asked)
    have = picture(load(out, told).to(dtype), asked)
    return None if torch.equal(want, have) else "another picture: %g" % (want - have).abs().max()


def codes(work, source, asked, told, extra):
    out = os.path.join(work, "int8" + "".join(extra))
    status, text, error = run("quantize", "--int8", source, "-o", out, "--min-elements", "1", "--json", *extra)
    if status == 3 and "loads codes on a GPU only" in error:
        return "refused", None
    if status != 0:
        return None, "exit status %d: %s" % (status, error)
    report = json.loads(text)
    want = picture(load(source, told), asked)
    have = picture(load(out, told, report, torch.float32), asked)
    error = float((want - have).norm() / want.norm())
    quantized = sum(row["scheme"].startswith("int8") for row in report["tensors"] if row["scheme"])
    if error == 0 or quantized == 0:
        return None, "nothing was quantized"
    return "%.4f" % error, None if error < MOST else "an error of %.3f" % error


def try_kind(name, work):
    make, asked, saved, told = KINDS[name]
    torch.manual_seed(0)
    source = os.path.join(work, "source")
    make(work).save_pretrained(source, **saved)
    failed = []
    for flag, dtype in (("--fp16", torch.float16), ("--bf16", torch.bfloat16)):
        for extra in ((), ("--max-shard-size=100K",)) if flag == "--fp16" else ((),):
            wrong = cast(work, source, flag, dtype, asked, told, extra)
            if wrong:
                failed.append("%s %s %s: %s" % (name, flag, " ".join(extra), wrong))
    seen = []
    for extra in ((), ("--rest=fp16",)):
        result, wrong = codes(work, source, asked, told, extra)
        seen.append(result or "wrong")
        if wrong:
            failed.append("%s --int8 %s: %s" % (name, " ".join(extra), wrong))
    print("%-18s fp16, bf16: %s; int8: %s" % (name, "wrong" if any("16" in f.split(":")[0] for f in failed) else "the same",
                                              ", ".join(seen)), flush=True)
    return failed


def main():
    failed = []
    print("diffusers %s, transformers %s, torch %s" % (diffusers.__version__, transformers.__version__, torch.__version__))
    for name in sys.argv[1:] or KINDS:
        work = tempfile.mkdtemp(prefix="pipelines-")
        try:
            failed += try_kind(name, work)
        finally:
            shutil.rmtree(work)
    for line in failed:
        print("FAILED: " + line)
    sys.exit(1 if failed else 0)


main()
