/* decoder_text.h - a small decoder as a graph, for tests of the engine. */
#pragma once

/* Tokens, one layer with two heads of queries for each of keys, a mask, and the table of tokens as the last matrix. */
#define DECODER                                                                                                        \
    "(int64[3,7] at, int64[3,7] mask, float[29,8] pa, float[8] pb, float[16,8] pc, float[8,8] pd, float[8] pe, "       \
    "float[20,8] pf, float[8,10] pg) => (float[3,7,29] y) <int64[4] where = {3, 1, 1, 7}, int64[2] parts = {10, 10}, " \
    "int64[3] qkv = {8, 4, 4}, int64 one = {1}, int64 zero = {0}, int64[2] col = {-1, 1}, float freq = {0.3}> { "      \
    "m = Cast<to: int = 9>(mask)  seen = Reshape(m, where)  size = Shape(at)  n = Gather(size, one)  "                 \
    "r = Range(zero, n, one)  rc = Reshape(r, col)  rf = Cast<to: int = 1>(rc)  angle = Mul(rf, freq)  "               \
    "twice = Concat<axis: int = 1>(angle, angle)  c = Cos(twice)  s = Sin(twice)  place = Expand(r, size)  "           \
    "h = Gather(pa, at)  a = RMSNormalization(h, pb)  wq, wk, wv = Split<axis: int = 0>(pc, qkv)  "                    \
    "tq = Transpose<perm: ints = [1, 0]>(wq)  tk = Transpose<perm: ints = [1, 0]>(wk)  "                               \
    "tv = Transpose<perm: ints = [1, 0]>(wv)  q = MatMul(a, tq)  k = MatMul(a, tk)  v = MatMul(a, tv)  "               \
    "qr = RotaryEmbedding<num_heads: int = 2>(q, c, s, place)  kr = RotaryEmbedding<num_heads: int = 1>(k, c, s, "     \
    "place)  o = Attention<is_causal: int = 1, q_num_heads: int = 2, kv_num_heads: int = 1>(qr, kr, v, seen)  "        \
    "p = MatMul(o, pd)  h2 = Add(h, p)  b = LayerNormalization(h2, pe)  tf = Transpose<perm: ints = [1, 0]>(pf)  "     \
    "gu = MatMul(b, tf)  g, u = Split<axis: int = 2>(gu, parts)  gs = Sigmoid(g)  gl = Mul(g, gs)  gu2 = Mul(gl, u)  " \
    "tg = Transpose<perm: ints = [1, 0]>(pg)  d = MatMul(gu2, tg)  h3 = Add(h2, d)  "                                  \
    "te = Transpose<perm: ints = [1, 0]>(pa)  y = MatMul(h3, te) }"
