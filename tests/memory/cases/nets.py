"""nets.py - the models of cases.csv: convolutional networks as ONNX's textual form, layer by layer as torchvision 0.14 has
them, and transformers as a config.json. Called by check_cases.py, which asks the program about what these write."""
import json
import os


class Net:
    """A graph in the making. Values are (name, channels); operators and parameters are lines of text."""

    def __init__(self, *shape):
        self.shape = shape
        self.params = []
        self.lines = []

    def start(self):
        return "x", self.shape[1]

    def value(self, op, inputs, attributes="", channels=None):
        name = "v%d" % len(self.lines)
        self.lines.append("%s = %s %s(%s)" % (name, op, "<%s> " % attributes if attributes else "",
                                              ", ".join(i if isinstance(i, str) else i[0] for i in inputs)))
        return name, inputs[0][1] if channels is None else channels

    def param(self, *shape):
        name = "p%d" % len(self.params)
        self.params.append((name, shape))
        return name

    def conv(self, x, out, kernel, stride=1, pad=0, groups=1, bias=True):
        weights = [self.param(out, x[1] // groups, kernel, kernel)] + ([self.param(out)] if bias else [])
        return self.value("Conv", [x] + weights, "kernel_shape = [%d, %d], strides = [%d, %d], pads = [%s], group = %d" %
                          (kernel, kernel, stride, stride, ", ".join([str(pad)] * 4), groups), out)

    def norm(self, x):
        return self.value("BatchNormalization", [x] + [self.param(x[1]) for _ in range(4)])

    def relu(self, x):
        return self.value("Relu", [x])

    def conv_norm_relu(self, x, *how, **more):
        return self.relu(self.norm(self.conv(x, *how, bias=False, **more)))

    def pool(self, x, kernel, stride, pad=0, ceil=0, op="MaxPool"):
        return self.value(op, [x], "kernel_shape = [%d, %d], strides = [%d, %d], pads = [%s], ceil_mode = %d" %
                          (kernel, kernel, stride, stride, ", ".join([str(pad)] * 4), ceil))

    def mean(self, x):
        return self.value("GlobalAveragePool", [x])

    def flatten(self, x, channels):
        return self.value("Flatten", [x], "axis = 1", channels)

    def linear(self, x, out, bias=True):
        weights = [self.param(out, x[1])] + ([self.param(out)] if bias else [])
        return self.value("Gemm", [x] + weights, "transB = 1", out)

    def join(self, values):
        return self.value("Concat", values, "axis = 1", sum(v[1] for v in values))

    def text(self, *outputs):
        meta = ", ".join('"vcompress.parameter:%s" : "%s"' % (name, name) for name, _ in self.params)
        inputs = ["float[%s] x" % ", ".join(map(str, self.shape))]
        inputs += ["float[%s] %s" % (", ".join(map(str, shape)), name) for name, shape in self.params]
        return '<ir_version: 11, opset_import: ["" : 23], metadata_props: [%s]>\ngraph (%s) => (%s)\n{\n%s\n}\n' % (
            meta, ", ".join(inputs), ", ".join(v[0] for v in outputs), "\n".join(self.lines))


# ---- convolutional networks ----

def simple(n=64, first=64, second=128):
    net = Net(n, 3, 32, 32)
    x = net.relu(net.conv(net.start(), first, 3))
    x = net.relu(net.conv(x, second, 3))
    return net.text(net.linear(net.flatten(x, second * 28 * 28), 10))


def alexnet(n):
    net = Net(n, 3, 224, 224)
    x = net.pool(net.relu(net.conv(net.start(), 64, 11, 4, 2)), 3, 2)
    x = net.pool(net.relu(net.conv(x, 192, 5, 1, 2)), 3, 2)
    for out in (384, 256, 256):
        x = net.relu(net.conv(x, out, 3, 1, 1))
    x = net.flatten(net.pool(net.pool(x, 3, 2), 1, 1, op="AveragePool"), 256 * 36)
    for out in (4096, 4096):
        x = net.relu(net.linear(x, out))
    return net.text(net.linear(x, 1000))


def vgg16(n):
    net = Net(n, 3, 224, 224)
    x = net.start()
    for stage in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for out in stage:
            x = net.relu(net.conv(x, out, 3, 1, 1))
        x = net.pool(x, 2, 2)
    x = net.flatten(net.pool(x, 1, 1, op="AveragePool"), 512 * 49)
    for out in (4096, 4096):
        x = net.relu(net.linear(x, out))
    return net.text(net.linear(x, 1000))


def resnet(n, depths, bottleneck, wide=1):
    net = Net(n, 3, 224, 224)
    x = net.pool(net.conv_norm_relu(net.start(), 64, 7, 2, 3), 3, 2, 1)
    for stage, depth in enumerate(depths):
        width = 64 << stage
        out = 4 * width if bottleneck else width
        for block in range(depth):
            stride = 2 if stage != 0 and block == 0 else 1
            if bottleneck:
                y = net.conv_norm_relu(x, wide * width, 1)
                y = net.conv_norm_relu(y, wide * width, 3, stride, 1)
                y = net.norm(net.conv(y, out, 1, bias=False))
            else:
                y = net.conv_norm_relu(x, width, 3, stride, 1)
                y = net.norm(net.conv(y, out, 3, 1, 1, bias=False))
            if stride != 1 or x[1] != out:
                x = net.norm(net.conv(x, out, 1, stride, bias=False))
            x = net.relu(net.value("Add", [y, x]))
    return net.text(net.linear(net.flatten(net.mean(x), x[1]), 1000))


def densenet121(n):
    net = Net(n, 3, 224, 224)
    x = net.pool(net.conv_norm_relu(net.start(), 64, 7, 2, 3), 3, 2, 1)
    for stage, depth in enumerate((6, 12, 24, 16)):
        parts = [x]
        for _ in range(depth):
            y = net.relu(net.norm(net.join(parts)))
            y = net.relu(net.norm(net.conv(y, 128, 1, bias=False)))
            parts.append(net.conv(y, 32, 3, 1, 1, bias=False))
        x = net.norm(net.join(parts))
        if stage < 3:
            x = net.pool(net.conv(net.relu(x), x[1] // 2, 1, bias=False), 2, 2, op="AveragePool")
    return net.text(net.linear(net.flatten(net.mean(net.relu(x)), x[1]), 1000))


def squeezenet(n):
    net = Net(n, 3, 224, 224)
    x = net.relu(net.conv(net.start(), 96, 7, 2))
    for squeeze, expand in ((0, 0), (16, 64), (16, 64), (32, 128), (0, 0), (32, 128), (48, 192), (48, 192), (64, 256), (0, 0),
                            (64, 256)):
        if squeeze == 0:
            x = net.pool(x, 3, 2, ceil=1)
            continue
        x = net.relu(net.conv(x, squeeze, 1))
        x = net.join([net.relu(net.conv(x, expand, 1)), net.relu(net.conv(x, expand, 3, 1, 1))])
    x = net.relu(net.conv(x, 1000, 1))
    return net.text(net.flatten(net.mean(x), 1000))


def googlenet(n):
    """With both classifiers that only training has: their parameters count."""
    net = Net(n, 3, 224, 224)
    x = net.pool(net.conv_norm_relu(net.start(), 64, 7, 2, 3), 3, 2, ceil=1)
    x = net.conv_norm_relu(net.conv_norm_relu(x, 64, 1), 192, 3, 1, 1)
    outputs = []
    for a, b, c, d, e, f in ((0,) * 6, (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (0,) * 6,
                             (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
                             (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), (0,) * 6,
                             (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)):
        if a == 0:
            x = net.pool(x, 3, 2, ceil=1)
            continue
        x = net.join([net.conv_norm_relu(x, a, 1), net.conv_norm_relu(net.conv_norm_relu(x, b, 1), c, 3, 1, 1),
                      net.conv_norm_relu(net.conv_norm_relu(x, d, 1), e, 3, 1, 1),
                      net.conv_norm_relu(net.pool(x, 3, 1, 1), f, 1)])
        if x[1] in (512, 528) and len(outputs) < (1 if x[1] == 512 else 2):
            y = net.conv_norm_relu(net.pool(x, 5, 3, op="AveragePool"), 128, 1)
            outputs.append(net.linear(net.relu(net.linear(net.flatten(y, 2048), 1024)), 1000))
    return net.text(net.linear(net.flatten(net.mean(x), 1024), 1000), *outputs)


def gate(net, x, middle, act, last):
    """Squeeze and excitation: each channel times a number of its own."""
    y = net.conv(net.mean(x), middle, 1)
    y = net.value(last, [net.conv(act(y), x[1], 1)])
    return net.value("Mul", [x, y])


def inverted(net, x, inner, out, kernel, stride, act, middle, gate_act, gate_last):
    y = x
    if inner != x[1]:
        y = act(net.norm(net.conv(y, inner, 1, bias=False)))
    y = act(net.norm(net.conv(y, inner, kernel, stride, kernel // 2, groups=inner, bias=False)))
    if middle:
        y = gate(net, y, middle, gate_act, gate_last)
    y = net.norm(net.conv(y, out, 1, bias=False))
    return net.value("Add", [x, y]) if stride == 1 and out == x[1] else y


def mobilenet_v2(n):
    net = Net(n, 3, 224, 224)
    net.lines += ["low = Constant <value = float {0}> ()", "high = Constant <value = float {6}> ()"]

    def act(x):
        return net.value("Clip", [x, "low", "high"])
    x = act(net.norm(net.conv(net.start(), 32, 3, 2, 1, bias=False)))
    for t, c, count, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(count):
            x = inverted(net, x, t * x[1], c, 3, s if k == 0 else 1, act, 0, None, None)
    x = act(net.norm(net.conv(x, 1280, 1, bias=False)))
    return net.text(net.linear(net.flatten(net.mean(x), 1280), 1000))


def mobilenet_v3_large(n):
    net = Net(n, 3, 224, 224)

    def hard(x):
        return net.value("HardSwish", [x])
    x = hard(net.norm(net.conv(net.start(), 16, 3, 2, 1, bias=False)))
    for kernel, inner, out, middle, act, stride in (
            (3, 16, 16, 0, net.relu, 1), (3, 64, 24, 0, net.relu, 2), (3, 72, 24, 0, net.relu, 1), (5, 72, 40, 24, net.relu, 2),
            (5, 120, 40, 32, net.relu, 1), (5, 120, 40, 32, net.relu, 1), (3, 240, 80, 0, hard, 2), (3, 200, 80, 0, hard, 1),
            (3, 184, 80, 0, hard, 1), (3, 184, 80, 0, hard, 1), (3, 480, 112, 120, hard, 1), (3, 672, 112, 168, hard, 1),
            (5, 672, 160, 168, hard, 2), (5, 960, 160, 240, hard, 1), (5, 960, 160, 240, hard, 1)):
        x = inverted(net, x, inner, out, kernel, stride, act, middle, net.relu, "HardSigmoid")
    x = net.flatten(net.mean(hard(net.norm(net.conv(x, 960, 1, bias=False)))), 960)
    return net.text(net.linear(hard(net.linear(x, 1280)), 1000))


def efficientnet_b0(n):
    net = Net(n, 3, 224, 224)

    def act(x):
        return net.value("Mul", [x, net.value("Sigmoid", [x])])
    x = act(net.norm(net.conv(net.start(), 32, 3, 2, 1, bias=False)))
    for t, kernel, stride, out, count in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
                                          (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for k in range(count):
            x = inverted(net, x, t * x[1], out, kernel, stride if k == 0 else 1, act, max(1, x[1] // 4), act, "Sigmoid")
    x = act(net.norm(net.conv(x, 1280, 1, bias=False)))
    return net.text(net.linear(net.flatten(net.mean(x), 1280), 1000))


def resnet_config():
    """ResNet-50 once more, from a config.json, whose weights have names that tell modules apart."""
    return json.dumps(dict(architectures=["ResNetForImageClassification"], model_type="resnet", num_channels=3, embedding_size=64,
                           hidden_sizes=[256, 512, 1024, 2048], depths=[3, 4, 6, 3], layer_type="bottleneck", hidden_act="relu",
                           num_labels=1000, downsample_in_first_stage=False))


# ---- layers by themselves ----

def simple_list():
    return ("input x [batch, 3, 32, 32]\nconv conv1 64 kernel=3\nrelu\nconv conv2 128 kernel=3\nrelu\nflatten\n"
            "linear fc 10\n")


def distilbert(words, hidden, layers, heads):
    return json.dumps(dict(architectures=["DistilBertForMaskedLM"], model_type="distilbert", n_layers=layers, n_heads=heads, dim=hidden,
                           hidden_dim=4 * hidden, vocab_size=words, max_position_embeddings=512, activation="gelu", sinusoidal_pos_embds=False))


def normed_list():
    return ("input x [batch, 3, 64, 64]\n" + "".join("conv m.%d 32 kernel=3 pad=1 bias=no\nbatchnorm m.%d\nrelu\n" % (3 * k, 3 * k + 1) for k in range(4))
            + "globalavgpool\nflatten\nlinear f 10\n")


def conv1_list():
    return "input x [batch, 3, 32, 32]\nconv conv1 64 kernel=3\n"


def fc_list():
    return "input x [batch, 100352]\nlinear fc 10\n"


def matrix(inputs, outputs):
    """A product and nothing else: its weight is of [outputs, inputs]."""
    return "input x [batch, %d]\nlinear a %d bias=no\n" % (inputs, outputs)


def chain(n, width, rows, act="tanh"):
    return "input x [%d, %d]\n" % (rows, width) + "".join("linear l%d %d\n%s\n" % (k, width, act) for k in range(n))


def shared(n, width, rows):
    """The same layer n times."""
    net = Net(rows, width)
    x, weights = net.start(), [net.param(width, width), net.param(width)]
    for _ in range(n):
        x = net.value("Gemm", [x] + weights, "transB = 1")
    return net.text(x)


def vectors(*counts):
    """A parameter of each of these numbers of elements."""
    net = Net(1, 1)
    x = net.start()
    outputs = [net.value("Add", [x, net.param(n)]) for n in counts]
    return net.text(*outputs)


# ---- transformers ----

def llama(words, hidden, layers, inner, heads, kv=0, head=0, tied=False, bias=False, experts=0, chosen=2):
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=words, hidden_size=hidden,
                  intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv or heads,
                  head_dim=head or hidden // heads, max_position_embeddings=131072, rms_norm_eps=1e-5,
                  tie_word_embeddings=tied)
    if bias:
        config.update(architectures=["Qwen2ForCausalLM"], model_type="qwen2")
    if experts:
        config.update(architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=experts,
                      num_experts_per_tok=chosen)
    return json.dumps(config)


def bert(words, hidden, layers, heads, class_="BertModel"):
    return json.dumps(dict(architectures=[class_], model_type="bert", vocab_size=words, hidden_size=hidden,
                           num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
                           max_position_embeddings=512, type_vocab_size=2))


def gpt2(hidden, layers, heads, positions=1024, words=50257):
    return json.dumps(dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=words, n_embd=hidden, n_layer=layers,
                           n_head=heads, n_positions=positions, n_ctx=positions))


def pythia(words, hidden, layers, heads):
    return json.dumps(dict(architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", vocab_size=words, hidden_size=hidden,
                           num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
                           max_position_embeddings=2048, tie_word_embeddings=False))


def t5(hidden, head, heads, inner, layers=24):
    return json.dumps(dict(architectures=["T5ForConditionalGeneration"], model_type="t5", vocab_size=32128, d_model=hidden,
                           d_kv=head, num_heads=heads, d_ff=inner, num_layers=layers, is_encoder_decoder=True,
                           feed_forward_proj="relu", tie_word_embeddings=True))


def vit():
    return json.dumps(dict(architectures=["ViTForImageClassification"], model_type="vit", hidden_size=768, num_hidden_layers=12,
                           num_attention_heads=12, intermediate_size=3072, image_size=224, patch_size=16, num_channels=3,
                           num_labels=1000))


def deepseek_v3():
    return json.dumps(dict(architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", vocab_size=129280,
                           hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61,
                           num_attention_heads=128, num_key_value_heads=128, n_shared_experts=1, n_routed_experts=256,
                           num_experts_per_tok=8, first_k_dense_replace=3, moe_layer_freq=1, n_group=8, topk_group=4,
                           routed_scaling_factor=2.5, scoring_func="sigmoid", topk_method="noaux_tc", norm_topk_prob=True,
                           kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
                           hidden_act="silu", max_position_embeddings=163840, rms_norm_eps=1e-6, tie_word_embeddings=False,
                           rope_theta=10000.0))


def write(expression, folder, number):
    """Makes the file that an expression such as "resnet(2, (3, 4, 6, 3), True)" stands for; its path."""
    text = eval(expression, {k: v for k, v in globals().items() if callable(v)})
    path = os.path.join(folder, "m%d" % number, "config.json" if text.startswith("{") else "net.txt")
    os.mkdir(os.path.dirname(path))
    with open(path, "w") as f:
        f.write(text)
    return path
