/* onnx_sink.h - what the parts of the ONNX writer share: onnx_write.c (files), onnx_layout.c with onnx_pieces.c (what
 * stands where), onnx_names.c (what becomes of every tensor), onnx_edit.c with onnx_edited.c (what passes change beside
 * tensors) and onnx_messages.c (bytes of nodes and tensors). */
#pragma once

#include "formats/io/outfolder.h"
#include "formats/onnx/onnx.h"

#define ONNX_EXTERNAL_ALIGN ((uint64_t)4096)
#define ONNX_EXTERNAL_MIN   ((uint64_t)1024) /* smaller tensors stay in the model file */
#define ONNX_DATA_SUFFIX    ".data"

/* Where the bytes of a piece come from. */
enum onnx_piece_kind {
    ONNX_PIECE_COPY,    /* bytes of the source file from `from` on */
    ONNX_PIECE_LITERAL, /* bytes of `literals` */
    ONNX_PIECE_OUT      /* bytes of output tensor number `from`, which the job gives */
};

/* The model file is put together from pieces, front to back. */
struct onnx_piece {
    enum onnx_piece_kind kind;
    uint64_t from, n;
    uint64_t at; /* in the model file */
};

/* Where an output tensor goes. */
struct onnx_out {
    bool external; /* into the data file */
    bool changed;  /* vc_onnx_is_changed */
    bool moved;    /* codes of the source in another form, or a part of such: vc_onnx_moves */
    uint64_t at;   /* of the bytes [skip, skip + n) of what the job gives; the others are not written */
    uint64_t skip, n;
    const char *name; /* of the initializer */
    /* Values between the nodes of a main tensor; NULL: not needed. */
    const char *codes, *zero_point, *difference; /* as floats, before Mul */
    const char *inner;                           /* before the Cast to the type that the graph has */
    bool nbits;                                  /* a main tensor whose products become MatMulNBits nodes */
    struct onnx_view view;                       /* bits 0: what the job gives is stored as it comes */
    unsigned char *stored;                       /* with a view: all bytes of the file's form, until they are there */
    uint64_t n_shown;                            /* bytes of the job's form in it; both by the mutex */
};

/* How much moves to external data. */
enum onnx_moves {
    ONNX_MOVES_NOTHING,
    ONNX_MOVES_NEW, /* what was external in the source, and what is new */
    ONNX_MOVES_ALL  /* whatever can */
};

enum {
    ONNX_NAME_GONE = 1,
    ONNX_INPUT_GONE = 2,
    ONNX_INFO_GONE = 8, /* what the graph says of its type and shape does not hold any more */
    ONNX_REPLACED = 4   /* a constant of an edit has its name: the initializer or the Constant node goes */
};

/* An edit of the graph, by the value that it names. */
struct onnx_named_edit {
    size_t symbol; /* of the main graph */
    const struct vc_graph_edit *edit;
};

/* A constant that an edit makes, as an initializer. */
struct onnx_constant {
    const char *name;
    size_t old; /* the symbol that it stands for, or ONNX_NONE */
    uint32_t type;
    bool scalar;
    size_t n;
    const int64_t *numbers;
};

/* What changes about a node of the main graph. */
struct onnx_change {
    uint64_t node;                    /* place of its field */
    size_t symbol;                    /* what it makes */
    const struct vc_graph_edit *edit; /* NULL: the node goes, a constant has replaced what it makes */
    size_t old;                       /* VC_GRAPH_EDIT_INPUT: the symbol that the node reads now, or ONNX_NONE */
    size_t constant;                  /* the same: what it will read */
};

/* A value of the main graph that becomes codes and floats again. */
struct onnx_coded {
    size_t symbol;
    const struct vc_graph_edit *edit;
    bool input; /* of the graph: those who read it read `other`; else a node makes it, which now makes `other` */
    const char *other, *codes;
    const char *scale, *zero; /* initializers */
};

/* A BatchNormalization of the main graph that went into the product before it. */
struct onnx_folded {
    uint64_t norm, product; /* places of their fields; product 0: not seen */
    size_t before, after;   /* what the product made, and makes now: symbols */
    size_t bias;            /* what it reads as its third input now */
};

/* A node, of any graph, whose operator has another form in the new set (onnx_raise.c). */
struct onnx_raised {
    uint64_t at; /* of its field */
    const struct onnx_raise *row;
    struct vc_program_node node; /* what it says; strings are the sink's */
    const char *inputs[3];       /* behind its own: initializers, or "" */
    size_t n_inputs;
    int64_t axis; /* of Softmax */
    bool last;    /* ... that is the last one; else it becomes four nodes, with these values in between: */
    const char *shape, *flat, *rows;
};

/* All edits of the graph, resolved. */
struct onnx_edits {
    bool reshaped;                 /* a shape in the model changes, so that those of value_info may be wrong */
    struct onnx_named_edit *named; /* sorted by symbol; of one symbol as they came */
    size_t n_named;
    struct onnx_change *changes; /* sorted by node; of one node as they came */
    size_t n_changes, changes_capacity;
    struct onnx_constant *constants;
    size_t n_constants;
    struct onnx_coded *coded;
    size_t n_coded;
    size_t *coded_of;                      /* by symbol: of `coded`, or ONNX_NONE; NULL if there are none */
    struct onnx_constant *coded_constants; /* their scales and zero points */
    size_t n_coded_constants;
    struct onnx_folded *folded;
    size_t n_folded;
    uint32_t *unread;           /* by symbol: uses that go with folded nodes; NULL if there are none */
    struct onnx_raised *raised; /* sorted by place */
    size_t n_raised;
    struct onnx_constant *raised_constants;
    size_t n_raised_constants;
};

/* `self` of the sink. */
struct onnx_sink {
    struct vc_outfile *file, *data; /* NULL: not written */
    struct vc_outfolder *folder;    /* that they are files of; NULL: they are the sink's */
    const struct vc_model *model;
    const struct onnx *source;
    const struct vc_out_list *outs;
    const char *path; /* of the model file; the job's; NULL: none */
    bool force;
    const char *location; /* of the data file, as the model names it */
    struct vc_arena arena;

    size_t *first_out;     /* by tensor of the model: its main output, or ONNX_NONE */
    struct onnx_out *out;  /* by output */
    unsigned char *gone;   /* by symbol: ONNX_NAME_GONE, ONNX_INPUT_GONE */
    bool *drop;            /* by node of the source */
    size_t *node_out;      /* by node of the source: the main output that it makes a name for, or ONNX_NONE */
    size_t *products;      /* by node of the source: the main output of whose product it is a new form, or ONNX_NONE */
    size_t n_nbits;        /* main outputs that are codes of MatMulNBits */
    size_t n_nbits_gone;   /* MatMulNBits nodes of the source that are none any more */
    bool dequantizes;      /* no new MatMulNBits: codes of four bits go with DequantizeLinear */
    bool strip;            /* without what computes nothing */
    uint64_t strippable;   /* bytes of such */
    bool relayout;         /* those of the source, too; else all of them stay as they lie */
    struct vc_sink copies; /* the sink of tensors that do not move */
    pthread_mutex_t mutex; /* of `shown` */
    struct onnx_edits edits;
    uint64_t opset; /* of the new graph */
    enum onnx_moves moves;

    struct vc_text literals;
    struct onnx_piece *pieces;
    size_t n_pieces, pieces_capacity;
    uint64_t model_bytes, data_bytes;
    uint64_t expected; /* bytes that the job gives */
    atomic_uint_fast64_t got;
};

/* ---- onnx_out.c ---- */

/* Also a node whose values are in another file: it becomes an initializer, which can take them along. */
bool vc_onnx_is_changed(const struct onnx_sink *self, size_t out);
const struct onnx_link *vc_onnx_link_of(const struct onnx_sink *self, size_t out);
/* What its graph calls the weights of a main output: the model has a longer name for some (onnx_links.c). */
const char *vc_onnx_name_in_graph(const struct onnx_sink *self, size_t out);
/* It is stored beside the codes of a main output, and nodes read it with them. */
bool vc_onnx_is_part(const struct onnx_sink *self, size_t out);
/* The bytes that an output has in the file. */
uint64_t vc_onnx_out_bytes(const struct onnx_sink *self, size_t out);
/* The nodes between the initializer and its name: those that turn codes into f32, either DequantizeLinear or Cast and
 * Mul, and the Cast to the type that the graph has. */
bool vc_onnx_is_quantized(const struct onnx_sink *self, size_t out);
bool vc_onnx_is_product(const struct onnx_sink *self, size_t out);
bool vc_onnx_is_cast(const struct onnx_sink *self, size_t out);

/* The name, with _1, _2, ... behind it if the graph has it already. New names end in a dot and a word of ours, so they
 * differ among themselves. */
enum vc_status vc_onnx_choose_name(struct vc_ctx *ctx, struct onnx_sink *self, const char *base, const char *suffix,
                                   const char **out);
/* The value that is made under another name than `symbol` now; `symbol` itself where none is. */
size_t vc_onnx_folded_name(const struct onnx_sink *self, size_t symbol);
/* The message in `inner` as a field; empties `inner`. */
void vc_onnx_put_message(struct vc_text *text, uint32_t number, struct vc_text *inner);
/* An attribute of a node that is an integer. */
void vc_onnx_put_attribute(struct vc_ctx *ctx, struct vc_text *node, const char *name, uint64_t value);
/* A node with one output, as a field of a graph. */
struct onnx_new_node {
    const char *op, *output;
    const char *inputs[3];   /* up to NULL */
    const char *name, *role; /* one behind the other; NULL: it has no name */
    struct {
        const char *name;
        int64_t value;
    } attrs[2]; /* up to a name that is NULL */
};
void vc_onnx_put_node(struct vc_ctx *ctx, const struct onnx_new_node *node, struct vc_text *text);

/* ---- onnx_names.c ---- */

/* Fills first_out, and says of each out whether it is changed. */
enum vc_status vc_onnx_list_outs(struct vc_ctx *ctx, struct onnx_sink *self);
/* Fills gone, drop and the names of out; refuses what the graph's version cannot hold. */
enum vc_status vc_onnx_plan_outs(struct vc_ctx *ctx, struct onnx_sink *self);

/* ---- onnx_nbits_write.c ---- */

/* Codes of four bits of the source whose form, MatMulNBits or DequantizeLinear, is not the one that is asked for, or a
 * part of them: they are written in that form. */
bool vc_onnx_moves(const struct onnx_sink *self, size_t tensor);
/* Why the main output has no place in MatMulNBits nodes; NULL: it has one. */
const char *vc_onnx_why_no_nbits(const struct onnx_sink *self, size_t out);
/* Refuses codes that cannot get the form that is asked for, by the name of a weight or a node. */
enum vc_status vc_onnx_refuse_form(struct vc_ctx *ctx, const struct onnx_sink *self, const char *name, const char *why);
/* The same for nodes on codes of four bits that are no tensors of the model. */
enum vc_status vc_onnx_check_others(struct vc_ctx *ctx, const struct onnx_sink *self);
/* The form in the file of a main output and its parts. */
void vc_onnx_view_outs(struct onnx_sink *self, size_t out);
/* The shape of the output, which is `main` or a part of it. Returns the number of dimensions. */
unsigned vc_onnx_nbits_dims(const struct onnx_sink *self, size_t main, size_t out, uint64_t *dims);
/* Which nodes are written anew: fills products. */
void vc_onnx_plan_products(struct onnx_sink *self);

/* ---- onnx_messages.c: each adds to `text` ---- */

/* The nodes of a changed output, as fields of its graph. */
void vc_onnx_put_nodes(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text);
/* dims, data_type and name of a changed output or one of its parts: the start of its TensorProto. */
void vc_onnx_put_header(const struct onnx_sink *self, size_t out, struct vc_text *text);
/* An input of the graph of that initializer: an old graph lists all of them. */
void vc_onnx_put_input(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text);
/* A constant of an edit, as a field of its graph; and the input that an old graph lists for it. */
void vc_onnx_put_constant(struct vc_ctx *ctx, const struct onnx_constant *constant, struct vc_text *text);
void vc_onnx_put_constant_input(struct vc_ctx *ctx, const struct onnx_constant *constant, struct vc_text *text);
/* A value with its type and shape, as that field of a graph. */
void vc_onnx_put_value(struct vc_ctx *ctx, uint32_t number, const struct vc_program_value *value, struct vc_text *text);
/* external_data and data_location: the end of a TensorProto. */
void vc_onnx_put_place(struct vc_ctx *ctx, const char *location, uint64_t offset, uint64_t n, struct vc_text *text);

/* ---- onnx_pieces.c ---- */

/* While the pieces are listed. */
struct onnx_layout {
    struct vc_ctx *ctx;
    struct onnx_sink *self;
    struct onnx_reader r; /* only its wire and its room for names */
    size_t next_tensor, next_node, next_change;
    uint32_t graph;  /* the one whose fields are being added */
    size_t sealed;   /* pieces before this one are not made longer */
    size_t n_placed; /* bytes of `literals` that pieces have */
    bool opset_added;
    uint64_t n_strippable; /* bytes that compute nothing */
};

/* What was put at the end of `literals` becomes a piece: the functions below do it first, so that bytes stay in order. */
enum vc_status vc_onnx_add_literals(struct onnx_layout *l);
/* Appends a piece, or makes the last one longer where the bytes follow each other. */
enum vc_status vc_onnx_add_piece(struct onnx_layout *l, enum onnx_piece_kind kind, uint64_t from, uint64_t n);
/* Bytes of the source file. */
enum vc_status vc_onnx_add_copy(struct onnx_layout *l, struct vc_span span);
/* Room for the tag and the length of what is added from here on; *mark is for vc_onnx_end_message. */
enum vc_status vc_onnx_begin_message(struct onnx_layout *l, size_t *mark);
/* Tag and length of the message whose pieces are those from `mark` on. */
enum vc_status vc_onnx_end_message(struct onnx_layout *l, size_t mark, uint32_t number);

/* ---- onnx_strip.c ---- */

/* What a message is. */
enum onnx_kind {
    ONNX_KIND_NONE,
    ONNX_KIND_MODEL,
    ONNX_KIND_GRAPH,
    ONNX_KIND_NODE,
    ONNX_KIND_ATTRIBUTE,
    ONNX_KIND_VALUE,
    ONNX_KIND_TENSOR,
    ONNX_KIND_FUNCTION
};

/* A field of a message of that kind as it is in the source, or without what computes nothing. */
enum vc_status vc_onnx_add_rest(struct onnx_layout *l, const struct vc_field *field, enum onnx_kind kind);

/* ---- onnx_nbits_write.c ---- */

/* A node of `products`, as it is now. */
enum vc_status vc_onnx_add_product(struct onnx_layout *l, const struct vc_field *field, size_t node);
/* An opset_import of the file. */
enum vc_status vc_onnx_add_opset(struct onnx_layout *l, const struct vc_field *field);

/* ---- onnx_edit.c ---- */

/* Resolves the edits of the graph, after vc_onnx_plan_outs: fills edits, marks what constants replace in `gone`.
 * VC_E_INTERNAL for one that names what the graph does not have. */
enum vc_status vc_onnx_plan_edits(struct vc_ctx *ctx, struct onnx_sink *self);
void vc_onnx_edits_release(struct vc_ctx *ctx, struct onnx_edits *edits);

/* ---- onnx_edit_find.c ---- */

/* While all nodes of the source are looked at, in the order of the file: each before those of the graphs inside it. */
struct onnx_walk {
    struct onnx_sink *self;
    struct onnx_reader r;         /* only its wire and its room for names */
    struct onnx_program_reader p; /* for what a node says, in the sink's arena */
    uint32_t graph;               /* of the node */
    void *user;
};

/* Calls take for each node. */
typedef enum vc_status vc_onnx_node_taker(struct onnx_walk *w, const struct vc_field *node);
enum vc_status vc_onnx_each_node(struct vc_ctx *ctx, struct onnx_sink *self, vc_onnx_node_taker *take, void *user);
/* The attribute of that name; NULL: the node has none. */
const struct vc_program_attr *vc_onnx_find_attr(const struct vc_program_node *node, const char *name);

/* The first edit of that value in `named`, with how many there are in *n. */
size_t vc_onnx_edits_find(const struct onnx_edits *edits, size_t symbol, size_t *n);
/* What passes make of that attribute of the node at that place; NULL: it stays. */
const struct vc_graph_edit *vc_onnx_attribute_edit(const struct onnx_edits *edits, uint64_t node, const char *name);
/* The name of an attribute, in r->name, and the field that holds its numbers: ONNX_ATTRIBUTE_I, INTS, or 0 where it is
 * neither. */
enum vc_status vc_onnx_attribute_look(struct onnx_reader *r, struct vc_span message, uint32_t *number);

/* ---- onnx_folded.c ---- */

/* Which nodes go and change because of VC_GRAPH_EDIT_FOLD, before vc_onnx_plan_outs: fills edits.folded, edits.unread. */
enum vc_status vc_onnx_plan_folded(struct vc_ctx *ctx, struct onnx_sink *self);
/* Nothing in the new graph reads the value. */
bool vc_onnx_is_unread(const struct onnx_sink *self, size_t symbol);
/* The one whose product, or else whose norm, has its field at that place; NULL: none has. */
const struct onnx_folded *vc_onnx_folded_at(const struct onnx_sink *self, uint64_t at, bool product);
/* A field of such a product, input k or the output, as it is now. Returns false: it stays. */
bool vc_onnx_put_folded(struct onnx_layout *l, const struct onnx_folded *folded, uint32_t number, unsigned k);
/* Its third input. */
void vc_onnx_put_folded_bias(struct onnx_layout *l, const struct onnx_folded *folded);

/* ---- onnx_edited.c ---- */

/* An attribute of a node, or one of its inputs (number k), with what the changes of the node, n of them, say. *done, or
 * what the latter returns: false where it stays. */
enum vc_status vc_onnx_add_edited_attribute(struct onnx_layout *l, const struct vc_field *field,
                                            const struct onnx_change *changes, size_t n, bool *done);
bool vc_onnx_put_edited_input(struct onnx_layout *l, const struct onnx_change *changes, size_t n, unsigned k);
/* An input, output or value_info of the main graph whose value has that symbol. */
enum vc_status vc_onnx_add_declared(struct onnx_layout *l, const struct vc_field *field, size_t symbol);
/* The constants, behind everything else of the main graph. */
void vc_onnx_put_constants(struct onnx_layout *l);

/* ---- onnx_codes.c ---- */

/* The operator set of a graph with these outputs: some edits need a newer one. */
uint64_t vc_onnx_opset_with_codes(const struct onnx *source, const struct vc_out_list *outs);
/* Names of values that become codes: fills edits.coded. */
enum vc_status vc_onnx_plan_codes(struct vc_ctx *ctx, struct onnx_sink *self);
/* The nodes behind inputs of the graph. */
void vc_onnx_put_coded_inputs(struct onnx_layout *l);
/* A field of a node of the main graph, with another name of an input or output where that has one; and the nodes behind
 * such a node. */
enum vc_status vc_onnx_add_coded_name(struct onnx_layout *l, const struct vc_field *field, bool *done);
enum vc_status vc_onnx_add_coded_outputs(struct onnx_layout *l, const struct vc_field *node);
/* What an input or output of a node of l->graph with that name is called in the new graph. */
const char *vc_onnx_coded_name(const struct onnx_layout *l, const char *name, bool input);

/* ---- onnx_raise.c ---- */

/* Where the operator set rises: which nodes change, after all other edits are resolved. VC_E_UNSUPPORTED for an operator
 * that has no form in the new set. */
enum vc_status vc_onnx_plan_raise(struct vc_ctx *ctx, struct onnx_sink *self);
/* The node whose field begins there; NULL: it is as it was. */
const struct onnx_raised *vc_onnx_raised_at(const struct onnx_sink *self, uint64_t at);
/* *goes: the node has that attribute no more. */
enum vc_status vc_onnx_raised_attribute(struct onnx_layout *l, const struct onnx_raised *node,
                                        const struct vc_field *field, bool *goes);
/* Its new inputs and attributes. */
void vc_onnx_put_raised(struct onnx_layout *l, const struct onnx_raised *node);
/* The four nodes that a Softmax becomes. */
void vc_onnx_put_flattened(struct onnx_layout *l, const struct onnx_raised *node);

/* ---- onnx_layout.c ---- */

/* Puts the model file together; sizes and places are known afterwards. */
enum vc_status vc_onnx_lay_out(struct vc_ctx *ctx, struct onnx_sink *self);
