/* net_heads.c - what several families have behind the base model: classes of texts and of tokens, answers
 * to questions. Names begin with "/": heads stand outside of the base model's prefix. */
#include "graph/families/net.h"

/* Two numbers for each token: how likely the answer starts and ends there. They are two outputs, as in
 * transformers. */
void vc_net_question_head(struct vc_net *net, uint32_t x, int64_t hidden)
{
    net->graph->problem_type = "question_answering";
    vc_net_block(net, "/qa_outputs");
    x = vc_net_linear(net, x, "/qa_outputs", hidden, 2, true);
    uint32_t start = vc_net_pick(net, x, -1, 0);
    uint32_t end = vc_net_pick(net, x, -1, 1);
    vc_net_output(net, start, "start_logits");
    vc_net_output(net, end, "end_logits");
}

/* The place of the last token that is not `padding` in each row: max over j of j * (id[j] != padding),
 * [batch]. */
static uint32_t last_token(struct vc_net *net, int64_t padding)
{
    struct vc_graph *graph = net->graph;
    struct vc_graph_attr keep = vc_attr_int("keepdims", 0);
    uint32_t inputs[2], real;

    real = vc_net_op1(net, "Not", vc_net_op(net, "Equal", NULL, net->input_ids, vc_graph_add_int(graph, padding)));
    real = vc_net_cast(net, real, VC_DTYPE_I64);
    inputs[0] = vc_net_op(net, "Mul", NULL, real, vc_net_positions(net));
    inputs[1] = vc_graph_add_ints(graph, (int64_t[]){1}, 1);
    return vc_net_node(net, "ReduceMax", NULL, inputs, 2, &keep, 1);
}

/* "score": logits of the last token that is not "pad_token_id", or simply of the last one. transformers gathers the
 * logits at that place. Here Where and ReduceSum do it, which have gradients in the engine. */
static void last_token_head(struct vc_net *net, uint32_t x, int64_t hidden)
{
    struct vc_graph *graph = net->graph;
    struct vc_graph_attr keep = vc_attr_int("keepdims", 0);
    double padding = vc_net_real(net, "pad_token_id", -1);
    uint32_t inputs[3];

    vc_net_block(net, "/score");
    x = vc_net_linear(net, x, "/score", hidden, vc_net_labels(net), false);
    if (!(padding >= 0 && padding <= INT32_MAX)) { /* no token has such a number */
        vc_net_output(net, vc_net_pick(net, x, 1, -1), "logits");
        return;
    }
    /* Nothing but the last token is left in the sum, by operators that can be trained. */
    uint32_t is_last = vc_net_reshape(net, last_token(net, (int64_t)padding), (int64_t[]){-1, 1}, 2);
    is_last = vc_net_op(net, "Equal", NULL, vc_net_positions(net), is_last);
    inputs[0] = vc_net_op(net, "Unsqueeze", NULL, is_last, vc_graph_add_ints(graph, (int64_t[]){2}, 1));
    inputs[1] = x;
    inputs[2] = vc_graph_add_float(graph, 0);
    inputs[0] = vc_net_node(net, "Where", NULL, inputs, 3, NULL, 0);
    inputs[1] = vc_graph_add_ints(graph, (int64_t[]){1}, 1);
    vc_net_output(net, vc_net_node(net, "ReduceSum", NULL, inputs, 2, &keep, 1), "logits");
}

void vc_net_token_head(struct vc_net *net, uint32_t x, const char *module, int64_t hidden)
{
    vc_net_block(net, "%s", module);
    vc_net_output(net, vc_net_linear(net, x, module, hidden, vc_net_labels(net), true), "logits");
}

bool vc_net_decoder_head(struct vc_net *net, uint32_t x, const char *module, int64_t hidden)
{
    switch (net->head) {
    case VC_NET_BASE:
        vc_net_output(net, x, "last_hidden_state");
        return true;
    case VC_NET_SEQUENCE:
        last_token_head(net, x, hidden);
        return true;
    case VC_NET_TOKEN:
        x = vc_net_drop(net, x, vc_net_probability(net, "classifier_dropout|hidden_dropout", 0.1));
        vc_net_token_head(net, x, module, hidden);
        return true;
    case VC_NET_QUESTION:
        vc_net_question_head(net, x, hidden);
        return true;
    default:
        return false;
    }
}
