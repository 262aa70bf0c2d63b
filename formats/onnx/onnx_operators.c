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
 *     {"ffb", ONNX, "Gemm"}                 inputs A and B are factors of matrices, C is the bias
 *     {".wb", ONNX, "Conv ConvTranspose"}   X is data, W the factor, B the bias; a fourth input would be a bias, too
 *
 * onnx_uses.c asks for each input of each node, and joins the answers of all nodes that read a constant: a matrix that
 * one Gemm multiplies with and a Gather chooses rows of is both. To add an operator: its name in the row of its letters,
 * or a new row, with a letter for each input of its specification. */

#include "formats/onnx/onnx.h"

/* Domains of an operator, as a set. */
enum { ONNX = 1, MICROSOFT = 2, BOTH = 3 };

static const struct {
    const char *letters;
    unsigned domains;
    const char *names; /* with blanks between them */
} rows[] = {
    /* sums of products */
    {"f", ONNX, "MatMul Einsum"},
    {"ffb", ONNX, "Gemm"},
    {".wb", ONNX, "Conv ConvTranspose"},
    {".w.b.", ONNX, "DeformConv"},
    {".wbs", BOTH, "CausalConvWithState"},
    {".wwbis", ONNX, "RNN GRU"},
    {".wwbissp", ONNX, "LSTM"},
    {"f", MICROSOFT, "FusedMatMul TransposeMatMul FusedMatMulActivation SparseToDenseMatMul"},
    {"ffbq", MICROSOFT, "GemmFloat8"},
    {"ffb", MICROSOFT, "FusedGemm GemmFastGelu"},
    {".wb.", MICROSOFT, "FusedConv NhwcFusedConv Attention PackedAttention DecoderMaskedSelfAttention"},
    {".wb", MICROSOFT, "NhwcConv"},
    {".wib", MICROSOFT, "ConvTransposeWithDynamicPads"},
    {"..wwb.", MICROSOFT, "DecoderAttention"},
    {".wb.wb.", MICROSOFT, "LongformerAttention"},
    {".wwbisspwww.iw", MICROSOFT, "AttnLSTM"},
    {"..wbwbwb", MICROSOFT, "MoE"},
    {"iwbr", MICROSOFT, "WordConvEmbedding"},
    {".w", MICROSOFT, "RouterGateUpProj"},
    {"..www.", MICROSOFT, "MoEPacked"},
    {".wibs.", MICROSOFT, "VarlenCausalConvWithState"},
    {"...wbb..ni", MICROSOFT, "Mamba2Verify"},
    {".nwww.", MICROSOFT, "HyperConnectionLowRankMix"},
    {"...w", MICROSOFT, "GatedAdd"},
    {".b.wb.i", MICROSOFT, "GatedRelativePositionBias"},
    /* biases and embeddings that are operators of their own */
    {".b", MICROSOFT, "BiasGelu FastGelu BiasSplitGelu"},
    {".b.", MICROSOFT, "BiasAdd"},
    {".b.i", MICROSOFT, "BiasDropout BitmaskBiasDropout"},
    {"...b.", MICROSOFT, "MultiHeadAttention PackedMultiHeadAttention"},
    {"..........b", MICROSOFT, "DecoderMaskedMultiHeadAttention"},
    {"ri", ONNX, "Gather GatherElements"},
    {"ri", BOTH, "GatherND"},
    {"iirrrnn.", MICROSOFT, "EmbedLayerNormalization"},
    {"ri", MICROSOFT, "RelativePositionBias TorchEmbedding"},
    /* normalizations */
    {".n", ONNX, "BatchNormalization InstanceNormalization GroupNormalization RMSNormalization"},
    {".n", BOTH, "LayerNormalization SimplifiedLayerNormalization"},
    {"..nnb", MICROSOFT, "SkipLayerNormalization"},
    {"..nb", MICROSOFT, "SkipSimplifiedLayerNormalization"},
    {".n", MICROSOFT, "GroupNorm BranchwiseRMSNorm"},
    {".nn.b", MICROSOFT, "SkipGroupNorm"},
    {".n.", MICROSOFT, "GatedRMSNorm"},
    {".ni.", MICROSOFT, "RMSNormRotary"},
    /* codes */
    {">q", BOTH, "QuantizeLinear DequantizeLinear"},
    {">", ONNX, "DynamicQuantizeLinear"},
    {"ccq", ONNX, "MatMulInteger"},
    {".cq", ONNX, "ConvInteger"},
    {"cqqcq", ONNX, "QLinearMatMul"},
    {".qqcqqqqc", BOTH, "QLinearConv"},
    {"c", MICROSOFT, "MatMulInteger16"},
    {"ccqqqqb", MICROSOFT, "MatMulIntegerToFloat"},
    {".cqqb", MICROSOFT, "DynamicQuantizeMatMul MatMulBlockQuantizedFp8Weight"},
    {".ccbisspq", MICROSOFT, "DynamicQuantizeLSTM"},
    {".cqqqb", MICROSOFT, "MatMulNBits MatMulBlockQuantizedFp4Weight"},
    {".cq", MICROSOFT, "MatMulBnb4 MatMulPacked"},
    {".ci", MICROSOFT, "MatMulFpQ4"},
    {"..ncqbcqb", MICROSOFT, "MatMulNBitsMlp"},
    {"..ncqbcqbcqb", MICROSOFT, "MatMulNBitsQkv"},
    {".cqwqwq", MICROSOFT, "MatMulNBitsQLoRA"},
    {"ci", MICROSOFT, "GatherPacked"},
    {"cqcq", MICROSOFT, "MulInteger"},
    {">q", MICROSOFT, "QuantizeWithOrder DequantizeWithOrder"},
    {"ciqq", MICROSOFT, "GatherBlockQuantized"},
    {".qqcqqcq", MICROSOFT, "QGemm"},
    {".cbqq.qq.", MICROSOFT, "QAttention"},
    {"..cqbcqbcqbqqq.q", MICROSOFT, "QMoE"},
    {"iiccccc.q", MICROSOFT, "QEmbedLayerNormalization"},
    {".qqcqqqqc", MICROSOFT, "QLinearConvTranspose"},
    {"cqqcq", MICROSOFT, "QLinearAdd QLinearMul"},
    {"q", MICROSOFT, "QLinearConcat"},
    {".cqqcq", MICROSOFT, "QLinearWhere"},
    {".q", MICROSOFT,
     "QLinearSigmoid QLinearLeakyRelu QLinearSoftmax QLinearReduceMean QLinearAveragePool QLinearGlobalAveragePool "
     "QOrderedGelu"},
    {".qcqqb.q", MICROSOFT, "QOrderedMatMul"},
    {".qnnq", MICROSOFT, "QOrderedLayerNormalization"},
    {".qqqqcccqqqbbbqqq.", MICROSOFT, "QOrderedAttention"},
    {".qcqbqq.cqbq.q", MICROSOFT, "QOrderedLongformerAttention"},
    /* the same elements in another shape, type or choice */
    {">", ONNX, "Identity Cast Transpose Flatten DepthToSpace SpaceToDepth"},
    {">=", ONNX, "CastLike"},
    {">i", ONNX, "Dropout Reshape Squeeze Unsqueeze Expand Tile Slice DynamicSlice Split Compress"},
    {">i", MICROSOFT, "ExpandDims"},
    {">i", BOTH, "Trilu"},
    /* element by element */
    {"a", ONNX, "Add"},
    {"x", ONNX, "Mul"},
    {"e", ONNX, "Sub Div Pow Min Max Mod PRelu Where And"},
    /* indices, sizes and shapes */
    {"=", BOTH, "Shape"},
    {"=", ONNX, "Size Scan"},
    {"i", ONNX, "ConstantOfShape If"},
    {"ii=", ONNX, "Loop"},
    {".i.i", BOTH, "Pad"},
    {".i", ONNX,
     "Resize Upsample ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
     "ReduceLogSumExp ReduceSumSquare TopK CumSum CenterCropPad Col2Im ReverseSequence DFT"},
    {".i.", ONNX, "ScatterND ScatterElements Scatter"},
    {"..i", ONNX, "TensorScatter MaxUnpool NonMaxSuppression"},
    {"ii.", ONNX, "OneHot"},
    {".i.i", ONNX, "STFT"}};

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

/* Operators that are not in the table have data. */
const char *vc_onnx_operator_letters(const char *name, bool microsoft)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((rows[i].domains & (microsoft ? MICROSOFT : ONNX)) != 0 && vc_is_one_of(name, rows[i].names)) {
            return rows[i].letters;
        }
    }
    return ".";
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
