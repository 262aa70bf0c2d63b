/* onnx_operators.c - what operators do with each of their inputs: the one table that tells weights from other
 * constants. A letter for each input, of which the last counts for all further ones:
 *
 *     w  factor of a sum of products        f  the same of matrices: an outer product where the sum has one term
 *     r  rows of it are chosen by indices   n  scale, offset, mean or variance of a normalization
 *     b  bias                               s  initial state         p  peephole weights
 *     c  codes                              q  scale or zero point of codes, and what else belongs to these
 *     i  index, axis or size                =  only its type and shape matter
 *     >  the output has its elements        a  Add        x  Mul     e  others, element by element
 *     .  data: a constant there is a table
 *
 * Operators that are not in the table have data. Source: Operators.md and Operators-ml.md of ONNX, ContribOperators.md of
 * onnxruntime.
 *
 *     {"Gemm", ONNX, "ffb"}        inputs A and B are factors of matrices, C is the bias
 *     {"Conv", ONNX, ".wb"}        X is data, W the factor, B the bias; a fourth input would be a bias, too
 *
 * onnx_uses.c asks for each input of each node, and joins the answers of all nodes that read a constant: a matrix that
 * one Gemm multiplies with and a Gather chooses rows of is both. To add an operator: a row in its group, with a letter
 * for each input of its specification. */

#include "formats/onnx/onnx.h"

/* Domains of an operator, as a set. */
enum { ONNX = 1, MICROSOFT = 2, BOTH = 3 };

static const struct {
    const char *name;
    unsigned domains;
    const char *letters;
} operators[] = {
    /* sums of products */
    {"MatMul", ONNX, "f"},
    {"Gemm", ONNX, "ffb"},
    {"Einsum", ONNX, "f"},
    {"Conv", ONNX, ".wb"},
    {"ConvTranspose", ONNX, ".wb"},
    {"DeformConv", ONNX, ".w.b."},
    {"CausalConvWithState", BOTH, ".wbs"},
    {"RNN", ONNX, ".wwbis"},
    {"GRU", ONNX, ".wwbis"},
    {"LSTM", ONNX, ".wwbissp"},
    {"FusedMatMul", MICROSOFT, "f"},
    {"TransposeMatMul", MICROSOFT, "f"},
    {"FusedMatMulActivation", MICROSOFT, "f"},
    {"SparseToDenseMatMul", MICROSOFT, "f"},
    {"GemmFloat8", MICROSOFT, "ffbq"},
    {"FusedGemm", MICROSOFT, "ffb"},
    {"GemmFastGelu", MICROSOFT, "ffb"},
    {"FusedConv", MICROSOFT, ".wb."},
    {"NhwcConv", MICROSOFT, ".wb"},
    {"NhwcFusedConv", MICROSOFT, ".wb."},
    {"ConvTransposeWithDynamicPads", MICROSOFT, ".wib"},
    {"Attention", MICROSOFT, ".wb."},
    {"PackedAttention", MICROSOFT, ".wb."},
    {"DecoderMaskedSelfAttention", MICROSOFT, ".wb."},
    {"DecoderAttention", MICROSOFT, "..wwb."},
    {"LongformerAttention", MICROSOFT, ".wb.wb."},
    {"AttnLSTM", MICROSOFT, ".wwbisspwww.iw"},
    {"MoE", MICROSOFT, "..wbwbwb"},
    {"WordConvEmbedding", MICROSOFT, "iwbr"},
    {"RouterGateUpProj", MICROSOFT, ".w"},
    {"MoEPacked", MICROSOFT, "..www."},
    {"VarlenCausalConvWithState", MICROSOFT, ".wibs."},
    {"Mamba2Verify", MICROSOFT, "...wbb..ni"},
    {"HyperConnectionLowRankMix", MICROSOFT, ".nwww."},
    {"GatedAdd", MICROSOFT, "...w"},
    {"GatedRelativePositionBias", MICROSOFT, ".b.wb.i"},
    /* biases and embeddings that are operators of their own */
    {"BiasGelu", MICROSOFT, ".b"},
    {"FastGelu", MICROSOFT, ".b"},
    {"BiasSplitGelu", MICROSOFT, ".b"},
    {"BiasAdd", MICROSOFT, ".b."},
    {"BiasDropout", MICROSOFT, ".b.i"},
    {"BitmaskBiasDropout", MICROSOFT, ".b.i"},
    {"MultiHeadAttention", MICROSOFT, "...b."},
    {"DecoderMaskedMultiHeadAttention", MICROSOFT, "..........b"},
    {"PackedMultiHeadAttention", MICROSOFT, "...b."},
    {"Gather", ONNX, "ri"},
    {"GatherND", BOTH, "ri"},
    {"GatherElements", ONNX, "ri"},
    {"EmbedLayerNormalization", MICROSOFT, "iirrrnn."},
    {"RelativePositionBias", MICROSOFT, "ri"},
    {"TorchEmbedding", MICROSOFT, "ri"},
    /* normalizations */
    {"BatchNormalization", ONNX, ".n"},
    {"InstanceNormalization", ONNX, ".n"},
    {"LayerNormalization", BOTH, ".n"},
    {"GroupNormalization", ONNX, ".n"},
    {"RMSNormalization", ONNX, ".n"},
    {"SimplifiedLayerNormalization", BOTH, ".n"},
    {"SkipLayerNormalization", MICROSOFT, "..nnb"},
    {"SkipSimplifiedLayerNormalization", MICROSOFT, "..nb"},
    {"GroupNorm", MICROSOFT, ".n"},
    {"SkipGroupNorm", MICROSOFT, ".nn.b"},
    {"BranchwiseRMSNorm", MICROSOFT, ".n"},
    {"GatedRMSNorm", MICROSOFT, ".n."},
    {"RMSNormRotary", MICROSOFT, ".ni."},
    /* codes */
    {"QuantizeLinear", BOTH, ">q"},
    {"DequantizeLinear", BOTH, ">q"},
    {"DynamicQuantizeLinear", ONNX, ">"},
    {"MatMulInteger", ONNX, "ccq"},
    {"ConvInteger", ONNX, ".cq"},
    {"QLinearMatMul", ONNX, "cqqcq"},
    {"QLinearConv", BOTH, ".qqcqqqqc"},
    {"MatMulInteger16", MICROSOFT, "c"},
    {"MatMulIntegerToFloat", MICROSOFT, "ccqqqqb"},
    {"DynamicQuantizeMatMul", MICROSOFT, ".cqqb"},
    {"DynamicQuantizeLSTM", MICROSOFT, ".ccbisspq"},
    {"MatMulNBits", MICROSOFT, ".cqqqb"},
    {"MatMulBnb4", MICROSOFT, ".cq"},
    {"MatMulFpQ4", MICROSOFT, ".ci"},
    {"MatMulPacked", MICROSOFT, ".cq"},
    {"MatMulBlockQuantizedFp4Weight", MICROSOFT, ".cqqqb"},
    {"MatMulBlockQuantizedFp8Weight", MICROSOFT, ".cqqb"},
    {"MatMulNBitsMlp", MICROSOFT, "..ncqbcqb"},
    {"MatMulNBitsQkv", MICROSOFT, "..ncqbcqbcqb"},
    {"MatMulNBitsQLoRA", MICROSOFT, ".cqwqwq"},
    {"GatherPacked", MICROSOFT, "ci"},
    {"MulInteger", MICROSOFT, "cqcq"},
    {"QuantizeWithOrder", MICROSOFT, ">q"},
    {"DequantizeWithOrder", MICROSOFT, ">q"},
    {"GatherBlockQuantized", MICROSOFT, "ciqq"},
    {"QGemm", MICROSOFT, ".qqcqqcq"},
    {"QAttention", MICROSOFT, ".cbqq.qq."},
    {"QMoE", MICROSOFT, "..cqbcqbcqbqqq.q"},
    {"QEmbedLayerNormalization", MICROSOFT, "iiccccc.q"},
    {"QLinearConvTranspose", MICROSOFT, ".qqcqqqqc"},
    {"QLinearAdd", MICROSOFT, "cqqcq"},
    {"QLinearMul", MICROSOFT, "cqqcq"},
    {"QLinearConcat", MICROSOFT, "q"},
    {"QLinearWhere", MICROSOFT, ".cqqcq"},
    {"QLinearSigmoid", MICROSOFT, ".q"},
    {"QLinearLeakyRelu", MICROSOFT, ".q"},
    {"QLinearSoftmax", MICROSOFT, ".q"},
    {"QLinearReduceMean", MICROSOFT, ".q"},
    {"QLinearAveragePool", MICROSOFT, ".q"},
    {"QLinearGlobalAveragePool", MICROSOFT, ".q"},
    {"QOrderedMatMul", MICROSOFT, ".qcqqb.q"},
    {"QOrderedGelu", MICROSOFT, ".q"},
    {"QOrderedLayerNormalization", MICROSOFT, ".qnnq"},
    {"QOrderedAttention", MICROSOFT, ".qqqqcccqqqbbbqqq."},
    {"QOrderedLongformerAttention", MICROSOFT, ".qcqbqq.cqbq.q"},
    /* the same elements in another shape, type or choice */
    {"Identity", ONNX, ">"},
    {"Cast", ONNX, ">"},
    {"CastLike", ONNX, ">="},
    {"Dropout", ONNX, ">i"},
    {"Transpose", ONNX, ">"},
    {"Reshape", ONNX, ">i"},
    {"Flatten", ONNX, ">"},
    {"Squeeze", ONNX, ">i"},
    {"Unsqueeze", ONNX, ">i"},
    {"Expand", ONNX, ">i"},
    {"Tile", ONNX, ">i"},
    {"Slice", ONNX, ">i"},
    {"DynamicSlice", ONNX, ">i"},
    {"ExpandDims", MICROSOFT, ">i"},
    {"Split", ONNX, ">i"},
    {"DepthToSpace", ONNX, ">"},
    {"SpaceToDepth", ONNX, ">"},
    {"Trilu", BOTH, ">i"},
    {"Compress", ONNX, ">i"},
    /* element by element */
    {"Add", ONNX, "a"},
    {"Mul", ONNX, "x"},
    {"Sub", ONNX, "e"},
    {"Div", ONNX, "e"},
    {"Pow", ONNX, "e"},
    {"Min", ONNX, "e"},
    {"Max", ONNX, "e"},
    {"Mod", ONNX, "e"},
    {"PRelu", ONNX, "e"},
    {"Where", ONNX, "e"},
    {"And", ONNX, "e"},
    /* indices, sizes and shapes */
    {"Shape", BOTH, "="},
    {"Size", ONNX, "="},
    {"ConstantOfShape", ONNX, "i"},
    {"If", ONNX, "i"},
    {"Loop", ONNX, "ii="}, /* and Scan: what their graphs do with it */
    {"Scan", ONNX, "="},
    {"Pad", BOTH, ".i.i"},
    {"Resize", ONNX, ".i"},
    {"Upsample", ONNX, ".i"},
    {"ScatterND", ONNX, ".i."},
    {"ScatterElements", ONNX, ".i."},
    {"Scatter", ONNX, ".i."},
    {"TensorScatter", ONNX, "..i"},
    {"ReduceSum", ONNX, ".i"},
    {"ReduceMean", ONNX, ".i"},
    {"ReduceMax", ONNX, ".i"},
    {"ReduceMin", ONNX, ".i"},
    {"ReduceProd", ONNX, ".i"},
    {"ReduceL1", ONNX, ".i"},
    {"ReduceL2", ONNX, ".i"},
    {"ReduceLogSum", ONNX, ".i"},
    {"ReduceLogSumExp", ONNX, ".i"},
    {"ReduceSumSquare", ONNX, ".i"},
    {"TopK", ONNX, ".i"},
    {"OneHot", ONNX, "ii."},
    {"CumSum", ONNX, ".i"},
    {"CenterCropPad", ONNX, ".i"},
    {"Col2Im", ONNX, ".i"},
    {"ReverseSequence", ONNX, ".i"},
    {"MaxUnpool", ONNX, "..i"},
    {"DFT", ONNX, ".i"},
    {"STFT", ONNX, ".i.i"},
    {"NonMaxSuppression", ONNX, "..i"}};

/* What a letter says, as bits of ONNX_READ_. '>' and '=' are in no row: what they mean depends on the nodes behind. */
static const struct {
    char letter;
    unsigned reads;
} meanings[] = {{'w', ONNX_READ_PRODUCT},
                {'f', ONNX_READ_FACTOR},
                {'r', ONNX_READ_ROWS},
                {'n', ONNX_READ_NORM},
                {'b', ONNX_READ_BIAS},
                {'s', ONNX_READ_STATE},
                {'p', ONNX_READ_PEEPS},
                {'c', ONNX_READ_CODES},
                {'q', ONNX_READ_SCALE},
                {'i', ONNX_READ_INDEX},
                {'a', ONNX_READ_TABLE},
                {'e', ONNX_READ_TABLE},
                {'x', ONNX_READ_TABLE | ONNX_READ_TURNS},
                {'.', ONNX_READ_TABLE}};

/* The name in the table, which lives as long as the program; NULL: the operator is not there, and all its inputs are
 * data. */
const char *vc_onnx_operator(const char *name, bool microsoft, const char **letters)
{
    *letters = ".";
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if ((operators[i].domains & (microsoft ? MICROSOFT : ONNX)) != 0 && strcmp(operators[i].name, name) == 0) {
            *letters = operators[i].letters;
            return operators[i].name;
        }
    }
    return NULL;
}

/* 0: the letter depends on the rest of the graph. */
unsigned vc_onnx_letter_reads(char letter)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].letter == letter) {
            return meanings[i].reads;
        }
    }
    return 0;
}
