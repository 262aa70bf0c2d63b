"""original_layouts.py - small models of pictures and videos as their authors' files name them, and diffusers' own functions
that turn them into its layout.

    ORIGINALS["flux"]() -> (the name of diffusers' function, {tensor: shape})

WIDTH stands where the models have 3072 channels.
"""
import types

WIDTH = 8


def weights(modules, others=()):
    """Each module has a weight and a bias."""
    shapes = {}
    for name, shape in modules.items():
        shapes.update({name + ".weight": shape, name + ".bias": shape[:1]})
    return {**shapes, **dict(others)}


def double(modulation, dot, mlp, blocks=2):
    """The blocks of Flux, HunyuanVideo and Chroma."""
    h, modules = WIDTH, {}
    for i in range(blocks):
        for side in ("img", "txt"):
            block = "double_blocks.%d.%s" % (i, side)
            modules.update({block + "_attn" + dot + "qkv": (3 * h, h), block + "_attn" + dot + "proj": (h, h), block + "_mod." + modulation: (6 * h, h),
                            block + "_mlp." + mlp[0]: (4 * h, h), block + "_mlp." + mlp[1]: (h, 4 * h)})
        block = "single_blocks.%d." % i
        modules.update({block + "linear1": (7 * h, h), block + "linear2": (h, 5 * h), block + "modulation." + modulation: (3 * h, h)})
    return {**modules, "final_layer.linear": (6, h), "final_layer.adaLN_modulation.1": (2 * h, h)}


def norms(blocks=2):
    return {name % (i, kind): (4,) for i in range(blocks) for kind in ("query", "key")
            for name in ("double_blocks.%d.img_attn.norm.%s_norm.scale", "double_blocks.%d.txt_attn.norm.%s_norm.scale", "single_blocks.%d.norm.%s_norm.scale")}


def flux():
    h = WIDTH
    modules = {**double("lin", ".", "02"), "txt_in": (h, 7), "img_in": (h, 6)}
    for name in ("time_in", "guidance_in", "vector_in"):
        modules.update({name + ".in_layer": (h, 5), name + ".out_layer": (h, h)})
    return "convert_flux_transformer_checkpoint_to_diffusers", weights(modules, norms())


def chroma():
    h, guide = WIDTH, "distilled_guidance_layer."
    modules = {name: shape for name, shape in double("lin", ".", "02").items() if "mod" not in name}
    modules.update({"txt_in": (h, 7), "img_in": (h, 6), guide + "in_proj": (h, 5), guide + "out_proj": (h, h),
                    guide + "layers.0.in_layer": (h, h), guide + "layers.0.out_layer": (h, h)})
    return "convert_chroma_transformer_checkpoint_to_diffusers", weights(modules, {**norms(), guide + "norms.0.scale": (h,)})


def flux2():
    h = WIDTH
    modules = {"img_in": (h, 6), "txt_in": (h, 7), "final_layer.linear": (6, h), "final_layer.adaLN_modulation.1": (2 * h, h),
               "single_blocks.0.linear1": (9 * h, h), "single_blocks.0.linear2": (h, 4 * h)}
    for name in ("time_in", "guidance_in"):
        modules.update({name + ".in_layer": (h, 5), name + ".out_layer": (h, h)})
    for name in ("double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"):
        modules[name + ".lin"] = (6 * h, h)
    for block in ("double_blocks.0.img", "double_blocks.0.txt"):
        modules.update({block + "_attn.qkv": (3 * h, h), block + "_attn.proj": (h, h), block + "_mlp.0": (6 * h, h), block + "_mlp.2": (h, 3 * h)})
    return "convert_flux2_transformer_checkpoint_to_diffusers", {name + ".weight": shape for name, shape in modules.items()}


def hunyuan():
    h, block = WIDTH, "txt_in.individual_token_refiner.blocks.0."
    modules = {**double("linear", "_", ("fc1", "fc2")), "vector_in.in_layer": (h, 5), "vector_in.out_layer": (h, h), "txt_in.input_embedder": (h, 7),
               "txt_in.c_embedder.linear_1": (h, 7), "txt_in.c_embedder.linear_2": (h, h), block + "self_attn_qkv": (3 * h, h), block + "self_attn_proj": (h, h),
               block + "mlp.fc1": (4 * h, h), block + "mlp.fc2": (h, 4 * h), block + "adaLN_modulation.1": (2 * h, h)}
    for name in ("time_in", "guidance_in", "txt_in.t_embedder"):
        modules.update({name + ".mlp.0": (h, 5), name + ".mlp.2": (h, h)})
    return "convert_hunyuan_video_transformer_to_diffusers", weights(modules)


def sd3():
    """The second block is the last: its text has no products behind the attention, and a scale and a shift alone."""
    h, others = WIDTH, {"pos_embed": (1, 4, WIDTH)}
    modules = {"context_embedder": (h, 7), "x_embedder.proj": (h, 4, 2, 2), "final_layer.linear": (6, h), "final_layer.adaLN_modulation.1": (2 * h, h)}
    for name in ("t_embedder", "y_embedder"):
        modules.update({name + ".mlp.0": (h, 5), name + ".mlp.2": (h, h)})
    for block, full, attns in (("0.x", True, 2), ("0.context", True, 1), ("1.x", True, 1), ("1.context", False, 1)):
        block = "joint_blocks.%s_block." % block
        for attn in ("attn", "attn2")[:attns]:
            modules[block + attn + ".qkv"] = (3 * h, h)
            modules.update({block + attn + ".proj": (h, h)} if full else {})
            others.update({block + attn + ".ln_q.weight": (4,), block + attn + ".ln_k.weight": (4,)})
        modules.update({block + "mlp.fc1": (4 * h, h), block + "mlp.fc2": (h, 4 * h)} if full else {})
        modules[block + "adaLN_modulation.1"] = ((6 if full else 2) * h, h)
    return "convert_sd3_transformer_checkpoint_to_diffusers", weights(modules, others)


def wan():
    h = WIDTH
    modules = {"time_embedding.0": (h, 5), "time_embedding.2": (h, h), "text_embedding.0": (h, 7), "text_embedding.2": (h, h), "time_projection.1": (6 * h, h),
               "head.head": (4, h), "img_emb.proj.1": (h, 9), "img_emb.proj.3": (h, h), "patch_embedding": (h, 4, 1, 2, 2)}
    others = {"head.modulation": (1, 2, h)}
    for i in range(2):
        block = "blocks.%d." % i
        modules.update({block + name: (h, h) for name in [a + "_attn." + x for a in ("self", "cross") for x in "qkvo"] + ["cross_attn.k_img", "cross_attn.v_img"]})
        modules.update({block + "ffn.0": (3 * h, h), block + "ffn.2": (h, 3 * h)})
        others.update({block + "modulation": (1, 6, h), block + "norm3.weight": (h,)})
    return "convert_wan_transformer_to_diffusers", weights(modules, others)


def ltx():
    h = WIDTH
    modules = {"patchify_proj": (h, 6), "adaln_single.emb.timestep_embedder.linear_1": (h, 5), "adaln_single.emb.timestep_embedder.linear_2": (h, h),
               "adaln_single.linear": (6 * h, h), "proj_out": (6, h)}
    modules.update({"transformer_blocks.0.attn1." + x: (h, h) for x in ("to_q", "to_k", "to_v", "to_out.0")})
    return "convert_ltx_transformer_checkpoint_to_diffusers", weights(modules)


def z_image():
    h = WIDTH
    modules = {"x_embedder": (h, 6), "final_layer.linear": (6, h), "final_layer.adaLN_modulation.1": (h, 5)}
    for part in ("layers", "noise_refiner", "context_refiner"):
        modules.update({part + ".0.attention.qkv": (3 * h, h), part + ".0.attention.out": (h, h), part + ".0.feed_forward.w1": (9, h)})
    return "convert_z_image_transformer_checkpoint_to_diffusers", {n: s for n, s in weights(modules).items() if not n.endswith("qkv.bias")}


ORIGINALS = {f.__name__: f for f in (flux, chroma, flux2, hunyuan, sd3, wan, ltx, z_image)}


def converter(module, name):
    """diffusers' function with WIDTH for 3072."""
    def narrow(code):
        return code.replace(co_consts=tuple(WIDTH if c == 3072 else narrow(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))

    f = getattr(module, name)
    return types.FunctionType(narrow(f.__code__), f.__globals__, f.__name__, f.__defaults__, f.__closure__)
