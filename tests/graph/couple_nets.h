/* couple_nets.h - small graphs, at least one for each way in which axes belong together, and the groups that they have.
 * test_couple.c compares the groups, test_couple_remove.c cuts units out of them. */
#pragma once

struct couple_net {
    const char *name, *text;
    const char *groups; /* lines of the file of couplings that are no comments */
    unsigned n_removed; /* groups of neurons and heads, which can be cut out without a change */
};

/* ONNX's textual form of a graph with these parameters, each of them given as the tensor of its name. */
#define ONNX(parameters, inputs, output, constants, body)                                                       \
    "<ir_version: 11, opset_import: [\"\" : 23], metadata_props: [" parameters "]>\ng (" inputs ") => (" output \
    ") <" constants "> {\n" body "}\n"
#define P(name) "\"vcompress.parameter:" name "\" : \"" name "\""

static const struct couple_net couple_nets[] = {
    {"linear layers", "input x [batch, 8]\nlinear fc1 6\nrelu\nlinear fc2 4\ntanh\nlinear fc3 2\n",
     "fc1.weight:0 = fc1.bias:0 = fc2.weight:1\n"
     "fc2.weight:0 = fc2.bias:0 = fc3.weight:1\n",
     2},
    {"residual join",
     "input x [batch, 3, 8, 8]\nconv a 4 kernel=3 pad=1 bias=no\nbatchnorm bn\nrelu as r\n"
     "conv b 4 kernel=3 pad=1\nadd r\nglobalavgpool\nflatten\nlinear fc 2\n",
     "a.weight:0 = b.weight:0 = bn.weight:0 = bn.bias:0 = bn.running_mean:0 = bn.running_var:0 = b.weight:1 = b.bias:0 "
     "= fc.weight:1\n",
     1},
    {"layer norm", "input x [batch, 8]\nlinear a 6\nlayernorm n\nlinear b 4\nrelu\nlinear c 2\n",
     "hidden: a.weight:0 = a.bias:0 = n.weight:0 = n.bias:0 = b.weight:1\n"
     "b.weight:0 = b.bias:0 = c.weight:1\n",
     1},
    {"flattened pictures",
     "input x [batch, 1, 9, 9]\nconv a 4 kernel=3\nrelu\nflatten\nlinear fc 5\nrelu\nlinear out 2\n",
     "a.weight:0 = a.bias:0 = fc.weight:1*49\n"
     "fc.weight:0 = fc.bias:0 = out.weight:1\n",
     2},
    {"grouped convolution",
     "input x [batch, 3, 8, 8]\nconv a 8 kernel=1\nconv g 12 groups=4 kernel=1\nconv b 2 kernel=1\n",
     "a.weight:0 = a.bias:0 = g.weight:1/4\n"
     "3: g.weight:0 = g.bias:0 = b.weight:1\n",
     2},
    {"depthwise convolution",
     "input x [batch, 3, 8, 8]\nconv a 8 kernel=1\nconv d 8 groups=8 kernel=3\nconv b 2 kernel=1\n",
     "a.weight:0 = d.weight:0 = a.bias:0 = d.bias:0 = b.weight:1\n", 1},
    /* two outputs for each channel: channels go with both, or the first or the second of all of them */
    {"depthwise with two outputs",
     "input x [batch, 3, 8, 8]\nconv a 4 kernel=1\nconv d 8 groups=4 kernel=1\nconv b 2 kernel=1\n",
     "a.weight:0 = d.weight:0*2 = a.bias:0 = d.bias:0*2 = b.weight:1*2\n"
     "2: d.weight:0 = d.bias:0 = b.weight:1\n",
     2},
    {"concatenation", "input x [batch, 8]\nlinear a 6\nrelu as r\nlinear b 4\nconcat r\nlinear c 2\n",
     "a.weight:0 = a.bias:0 = b.weight:1 = c.weight:1+4\n"
     "b.weight:0 = b.bias:0 = c.weight:1+0\n",
     2},
    {"packed qkv, grouped queries",
     ONNX(P("qkv") "," P("o"), "float[batch, length, 6] x, float[6, 32] qkv, float[16, 6] o",
          "float[batch, length, 6] y", "int64[3] sizes = {16, 8, 8}",
          "p = MatMul(x, qkv)\nq, k, v = Split<axis = -1>(p, sizes)\n"
          "a = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v)\ny = MatMul(a, o)\n"),
     "heads: qkv:1*8+0! = qkv:1*4+16! = qkv:1*4+24! = o:0*8\n", 1},
    {"packed qkv as five dimensions",
     ONNX(
         P("qkv") "," P("o"), "float[batch, length, 6] x, float[6, 36] qkv, float[12, 6] o",
         "float[batch, length, 6] y",
         "int64[5] five = {0, 0, 3, 3, 4}, int64[3] three = {0, 0, 12}, int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}",
         "p = MatMul(x, qkv)\nf = Reshape(p, five)\nt = Transpose<perm = [2, 0, 3, 1, 4]>(f)\n"
         "q = Gather<axis = 0>(t, i0)\nk = Gather<axis = 0>(t, i1)\nv = Gather<axis = 0>(t, i2)\n"
         "kt = Transpose<perm = [0, 1, 3, 2]>(k)\ns = MatMul(q, kt)\nw = Softmax<axis = -1>(s)\n"
         "h = MatMul(w, v)\nb = Transpose<perm = [0, 2, 1, 3]>(h)\nc = Reshape(b, three)\ny = MatMul(c, o)\n"),
     "heads: qkv:1*4! = o:0*4/3\n", 1},
    {"attention written out, grouped queries",
     ONNX(P("wq") "," P("wk") "," P("wv") "," P("o") "," P("bq"),
          "float[batch, length, 6] x, float[6, 16] wq, float[6, 8] wk, float[6, 8] wv, float[16, 6] o, float[16] bq",
          "float[batch, length, 6] y",
          "int64[4] qs = {0, 0, 4, 4}, int64[4] ks = {0, -1, 2, 4}, int64[1] two = {2}, int64[3] back = {0, 0, -1}, "
          "int64[1] l4 = {4}, int64[1] l2 = {2}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}",
          "q0 = MatMul(x, wq)\nq1 = Add(q0, bq)\nq2 = Reshape(q1, qs)\nq = Transpose<perm = [0, 2, 1, 3]>(q2)\n"
          "k0 = MatMul(x, wk)\nk1 = Reshape(k0, ks)\nk2 = Transpose<perm = [0, 2, 1, 3]>(k1)\n"
          "v0 = MatMul(x, wv)\nv1 = Reshape(v0, ks)\nv2 = Transpose<perm = [0, 2, 1, 3]>(v1)\n"
          "shape = Shape(k2)\nb = Slice(shape, zero, one)\nl = Slice(shape, two, three)\n"
          "wide = Concat<axis = 0>(b, l2, l2, l, l4)\nflat = Concat<axis = 0>(b, l4, l, l4)\n"
          "k3 = Unsqueeze(k2, two)\nk4 = Expand(k3, wide)\nk = Reshape(k4, flat)\n"
          "v3 = Unsqueeze(v2, two)\nv4 = Expand(v3, wide)\nv = Reshape(v4, flat)\n"
          "kt = Transpose<perm = [0, 1, 3, 2]>(k)\ns = MatMul(q, kt)\nw = Softmax<axis = -1>(s)\n"
          "h = MatMul(w, v)\nt = Transpose<perm = [0, 2, 1, 3]>(h)\nc = Reshape(t, back)\ny = MatMul(c, o)\n"),
     "heads: wq:1*8! = wk:1*4! = wv:1*4! = o:0*8 = bq:0*8\n", 1},
    {"gate and up in one, divided by number",
     ONNX(P("gu") "," P("down"), "float[batch, 6] x, float[6, 20] gu, float[10, 6] down", "float[batch, 6] y", "",
          "p = MatMul(x, gu)\ng, u = Split<axis = 1, num_outputs = 2>(p)\ns = Sigmoid(g)\nm = Mul(s, u)\n"
          "y = MatMul(m, down)\n"),
     "gu:1+0! = gu:1+10! = down:0\n", 1},
    {"parts of one size that differ",
     ONNX(P("a") "," P("b") "," P("c"), "float[batch, 6] x, float[6, 20] a, float[10, 6] b, float[10, 6] c",
          "float[batch, 6] y", "",
          "p = MatMul(x, a)\nl, r = Split<axis = 1, num_outputs = 2>(p)\ny0 = MatMul(l, b)\ny1 = MatMul(r, c)\n"
          "y = Add(y0, y1)\n"),
     "", 0},
    {"slices of a result",
     ONNX(P("a") "," P("b") "," P("c"), "float[batch, 6] x, float[6, 20] a, float[8, 6] b, float[12, 6] c",
          "float[batch, 6] y",
          "int64[1] from = {0}, int64[1] to = {8}, int64[1] last = {-12}, int64[1] end = {9223372036854775807}, "
          "int64[1] axis = {1}",
          "p = MatMul(x, a)\nl = Slice(p, from, to, axis)\nr = Slice(p, last, end, axis)\ny0 = MatMul(l, b)\n"
          "y1 = MatMul(r, c)\ny = Add(y0, y1)\n"),
     "a:1+0! = b:0\n"
     "a:1+8! = c:0\n",
     2},
    {"group norm",
     ONNX(
         P("a") "," P("s") "," P("t") "," P("b"),
         "float[batch, 2, 5, 5] x, float[6, 2, 3, 3] a, float[6] s, float[6] t, float[3, 6, 1, 1] b",
         "float[batch, 3, 5, 5] y", "",
         "c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, a)\nn = GroupNormalization<num_groups = 3>(c, s, t)\n"
         "y = Conv(n, b)\n"),
     "a:0*2 = s:0*2 = t:0*2 = b:1*2\n"
     "hidden 2: a:0 = s:0 = t:0 = b:1\n",
     1},
    {"instance norm, prelu, squeeze and excite",
     ONNX(P("a") "," P("s") "," P("t") "," P("slope") "," P("e1") "," P("e2") "," P("b"),
          "float[batch, 2, 5, 5] x, float[6, 2, 1, 1] a, float[6] s, float[6] t, float[6, 1, 1] slope, "
          "float[3, 6, 1, 1] e1, float[6, 3, 1, 1] e2, float[3, 6, 1, 1] b",
          "float[batch, 3, 5, 5] y", "int64[2] sides = {2, 3}",
          "c = Conv(x, a)\nn = InstanceNormalization(c, s, t)\np = PRelu(n, slope)\n"
          "m = ReduceMean<keepdims = 1>(p, sides)\nf = Conv(m, e1)\nr = Relu(f)\ng = Conv(r, e2)\nw = Sigmoid(g)\n"
          "q = Mul(p, w)\ny = Conv(q, b)\n"),
     "a:0! = e2:0! = s:0 = t:0 = slope:0 = e1:1 = b:1\n"
     "e1:0 = e2:1\n",
     2},
    {"convolutions the other way",
     ONNX(
         P("a") "," P("d") "," P("g") "," P("b") "," P("bg"),
         "float[batch, 2, 4, 4] x, float[2, 6, 2, 2] a, float[6, 1, 2, 2] d, float[6, 4, 1, 1] g, float[3, 8, 1, 1] b, "
         "float[8] bg",
         "float[batch, 3, h, w] y", "",
         "c = ConvTranspose<strides = [2, 2]>(x, a)\ne = ConvTranspose<group = 6>(c, d)\n"
         "f = ConvTranspose<group = 2>(e, g, bg)\ny = Conv(f, b)\n"),
     "3: a:1! = d:0! = g:0\n"
     "g:1/2! = b:1 = bg:0\n",
     2},
    {"Gemm",
     ONNX(P("a") "," P("b") "," P("c"), "float[batch, 6] x, float[5, 6] a, float[5] b, float[5, 4] c",
          "float[batch, 4] y", "", "h = Gemm<transB = 1>(x, a, b)\nr = Relu(h)\ny = Gemm(r, c)\n"),
     "a:0! = b:0 = c:0\n", 1},
    {"channels in another order",
     ONNX(P("a") "," P("g") "," P("b"),
          "float[batch, 2, 4, 4] x, float[12, 2, 1, 1] a, float[12, 6, 1, 1] g, float[3, 12, 1, 1] b",
          "float[batch, 3, 4, 4] y", "int64[5] apart = {0, 2, 6, 4, 4}, int64[4] back = {0, -1, 4, 4}",
          "c = Conv(x, a)\nr = Reshape(c, apart)\nt = Transpose<perm = [0, 2, 1, 3, 4]>(r)\ns = Reshape(t, back)\n"
          "h = Conv<group = 2>(s, g)\ny = Conv(h, b)\n"),
     "a:0*6/3 = g:1\n"
     "a:0 = g:1*2/4\n"
     "6: g:0 = b:1\n",
     3},
    {"sizes that nodes state",
     ONNX(P("a") "," P("b") "," P("token"),
          "float[batch, 2, 4, 4] x, float[6, 2, 1, 1] a, float[3, 6, 1, 1] b, float[1, 6, 1, 1] token",
          "float[1, 3, 10, 10] y",
          "int64[4] sizes = {1, 6, 8, 8}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[4] wide = {1, 6, 10, 10}, "
          "int64[4] once = {1, 1, 1, 1}",
          "c = Conv(x, a)\nr = Resize<mode = \"nearest\">(c, , , sizes)\np = Pad(r, pads)\ne = Expand(token, wide)\n"
          "s = Add(p, e)\nt = Tile(s, once)\ny = Conv(t, b)\n"),
     "a:0 = b:1 = token:1\n", 1},
    {"Einsum",
     ONNX(P("wq") "," P("wk") "," P("wv") "," P("o"),
          "float[batch, length, 6] x, float[3, 6, 4] wq, float[3, 6, 4] wk, float[3, 6, 4] wv, float[3, 4, 6] o",
          "float[batch, length, 6] y", "",
          "q = Einsum<equation = \"bld,hde->bhle\">(x, wq)\nk = Einsum<equation = \"bld,hde->bhle\">(x, wk)\n"
          "v = Einsum<equation = \"bld,hde->bhle\">(x, wv)\ns = Einsum<equation = \"bhie,bhje->bhij\">(q, k)\n"
          "w = Softmax<axis = -1>(s)\na = Einsum<equation = \"bhij,bhje->bhie\">(w, v)\n"
          "y = Einsum<equation = \"bhle,hed->bld\">(a, o)\n"),
     "heads: wq:0! = wk:0! = wv:0! = o:0\n", 1},
    {"channels as two factors",
     "input x [batch, 3, 8, 8]\nconv a 8 kernel=1\nreshape [0, 4, 2, 8, 8]\nsoftmax\nreshape [0, 8, 8, 8]\n"
     "conv b 2 kernel=1\n",
     "a.weight:0*2 = a.bias:0*2 = b.weight:1*2\n"
     "2: a.weight:0 = a.bias:0 = b.weight:1\n",
     2},
    /* its number of heads is an attribute of another name; printed and read again, the operator is Attention */
    {"an operator in other words",
     "<ir_version: 11, opset_import: [\"\" : 23, \"com.microsoft\" : 1], metadata_props: [" P("wq") "," P("wk") "," P(
         "wv") "," P("o") "]>\ng (float[batch, length, 6] x, float[6, 8] wq, float[6, 8] wk, float[6, 8] wv, "
                          "float[8, 6] o) => (float[batch, length, 6] y) {\n"
                          "q = MatMul(x, wq)\nk = MatMul(x, wk)\nv = MatMul(x, wv)\n"
                          "h = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v)\ny = MatMul(h, o)\n}\n",
     "", 1},
    /* a hidden unit has a row in every gate, a column, and lies in both directions */
    {"a recurrent layer",
     ONNX(P("w") "," P("r") "," P("b") "," P("p") "," P("o"),
          "float[7, batch, 3] x, float[2, 16, 3] w, float[2, 16, 4] r, float[2, 32] b, float[2, 12] p, float[8, 2] o",
          "float[7, batch, 2] y", "int64[3] flat = {0, 0, -1}",
          "a = LSTM<hidden_size = 4, direction = \"bidirectional\">(x, w, r, b, , , , p)\n"
          "t = Transpose<perm = [0, 2, 1, 3]>(a)\nf = Reshape(t, flat)\ny = MatMul(f, o)\n"),
     "w:1/6! = r:1/6! = r:2/24 = b:1/3 = p:1/8 = o:0/12\n", 1},
    {"mixed by an operator",
     ONNX(P("a") "," P("b"), "float[batch, 2, 4, 4] x, float[8, 2, 1, 1] a, float[3, 2, 1, 1] b",
          "float[batch, 3, 8, 8] y", "", "c = Conv(x, a)\nd = DepthToSpace<blocksize = 2>(c)\ny = Conv(d, b)\n"),
     "", 0},
};

#define N_COUPLE_NETS (sizeof couple_nets / sizeof *couple_nets)
