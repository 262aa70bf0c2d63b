/* onnx_sink.h - what the parts of the ONNX writer share: onnx_write.c (files), onnx_layout.c (what stands where),
 * onnx_names.c (what becomes of every tensor) and onnx_messages.c (bytes of nodes and tensors). */
#ifndef VC_FORMATS_ONNX_SINK_H
#define VC_FORMATS_ONNX_SINK_H

#include "formats/io/outfile.h"
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
    uint64_t at;   /* of the bytes [skip, skip + n) of what the job gives; the others are not written */
    uint64_t skip, n;
    const char *name; /* of the initializer */
    /* Values between the nodes of a main tensor; NULL: not needed. */
    const char *codes, *zero_point, *difference; /* as floats, before Mul */
    const char *inner;                           /* before the Cast to the type that the graph has */
};

/* How much moves to external data. */
enum onnx_moves {
    ONNX_MOVES_NOTHING,
    ONNX_MOVES_NEW, /* what was external in the source, and what is new */
    ONNX_MOVES_ALL  /* whatever can */
};

enum { ONNX_NAME_GONE = 1, ONNX_INPUT_GONE = 2 };

/* `self` of the sink. */
struct onnx_sink {
    struct vc_outfile *file, *data; /* NULL: not written */
    const struct vc_model *model;
    const struct onnx *source;
    const struct vc_out_list *outs;
    const char *path; /* of the model file; the job's; NULL: none */
    bool force;
    const char *location; /* of the data file, as the model names it */
    struct vc_arena arena;

    size_t *first_out;    /* by tensor of the model: its main output, or ONNX_NONE */
    struct onnx_out *out; /* by output */
    unsigned char *gone;  /* by symbol: ONNX_NAME_GONE, ONNX_INPUT_GONE */
    bool *drop;           /* by node of the source */
    enum onnx_moves moves;

    struct vc_text literals;
    struct onnx_piece *pieces;
    size_t n_pieces, pieces_capacity;
    uint64_t model_bytes, data_bytes;
    uint64_t expected; /* bytes that the job gives */
    atomic_uint_fast64_t got;
};

/* ---- onnx_names.c ---- */

/* Fills first_out, gone, drop and the names of out; refuses what the graph's version cannot hold. */
enum vc_status vc_onnx_plan_outs(struct vc_ctx *ctx, struct onnx_sink *self);
/* Also a node whose values are in another file: it becomes an initializer, which can take them along. */
bool vc_onnx_is_changed(const struct onnx_sink *self, size_t out);
const struct onnx_link *vc_onnx_link_of(const struct onnx_sink *self, size_t out);
/* What its graph calls the weights of a main output: the model has a longer name for some (onnx_links.c). */
const char *vc_onnx_name_in_graph(const struct onnx_sink *self, size_t out);
/* The nodes between the initializer and its name: those that turn codes into f32, either DequantizeLinear or Cast and
 * Mul, and the Cast to the type that the graph has. */
bool vc_onnx_is_quantized(const struct onnx_sink *self, size_t out);
bool vc_onnx_is_product(const struct onnx_sink *self, size_t out);
bool vc_onnx_is_cast(const struct onnx_sink *self, size_t out);

/* ---- onnx_messages.c: each adds to `text` ---- */

/* The nodes of a changed output, as fields of its graph. */
void vc_onnx_put_nodes(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text);
/* dims, data_type and name of a changed output or one of its companions: the start of its TensorProto. */
void vc_onnx_put_header(const struct onnx_sink *self, size_t out, struct vc_text *text);
/* An input of the graph of that initializer: an old graph lists all of them. */
void vc_onnx_put_input(struct vc_ctx *ctx, const struct onnx_sink *self, size_t out, struct vc_text *text);
/* external_data and data_location: the end of a TensorProto. */
void vc_onnx_put_place(struct vc_ctx *ctx, const char *location, uint64_t offset, uint64_t n, struct vc_text *text);

/* ---- onnx_layout.c ---- */

/* Puts the model file together; sizes and places are known afterwards. */
enum vc_status vc_onnx_lay_out(struct vc_ctx *ctx, struct onnx_sink *self);

#endif
