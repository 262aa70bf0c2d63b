/* onnx_text.h - the textual form of ONNX while it is read: tokens, types and tensors (onnx_lex.c), from which
 * onnx_text.c makes a program. */
#pragma once

#include "graph/onnx/onnx_build.h"

/* The text while it is read: `at` moves from start to end. Lists of *out grow in the arena; vc_onnx_parse
 * hands them over. */
struct vc_onnx_text {
    struct vc_ctx *ctx;
    struct vc_arena *arena;
    const char *start, *at, *end;
    struct vc_program *out;
    /* Lists of it while they grow. */
    struct vc_program_node *nodes;
    struct vc_program_constant *constants;
    struct vc_program_opset *opsets;
    struct vc_program_note *notes;
    size_t node_capacity, constant_capacity, opset_capacity, note_capacity;
};

/* VC_E_FORMAT: "line 3: expected a name at '= 4'". */
enum vc_status vc_onnx_fail_at(const struct vc_onnx_text *t, const char *expected);
/* The next character behind spaces and comments, which stays; NUL at the end. */
char vc_onnx_peek_char(struct vc_onnx_text *t);
/* It is that one, and is taken. */
bool vc_onnx_take_char(struct vc_onnx_text *t, char c);
enum vc_status vc_onnx_expect_char(struct vc_onnx_text *t, char c);
/* Letters, digits and '_' from here on; 0: there is no word. */
size_t vc_onnx_word_length(struct vc_onnx_text *t);
bool vc_onnx_next_is_word(struct vc_onnx_text *t, const char *word);
enum vc_status vc_onnx_take_word(struct vc_onnx_text *t, const char *expected, const char **word);
/* Words, strings in quotes, names that are either, numbers. */
enum vc_status vc_onnx_take_string(struct vc_onnx_text *t, const char **string, size_t *n);
enum vc_status vc_onnx_take_name(struct vc_onnx_text *t, const char *expected, const char **name);
enum vc_status vc_onnx_take_number(struct vc_onnx_text *t, bool *is_integer, int64_t *i, double *f);
enum vc_status vc_onnx_take_integer(struct vc_onnx_text *t, int64_t *i);
/* Room for one more at the end of a list in the arena, zeros; NULL: no memory. `list` is the address of its pointer. */
void *vc_onnx_one_more(struct vc_onnx_text *t, void *list, size_t *n, size_t *capacity, size_t size);
/* float, float[], float[batch, 3] */
bool vc_onnx_next_type(struct vc_onnx_text *t, enum vc_dtype *dtype);
enum vc_status vc_onnx_take_type(struct vc_onnx_text *t, struct vc_program_value *value);
/* {1, 2.5, ...} of the type and shape, or ["location": "file", ...], whose values are not read. */
enum vc_status vc_onnx_take_values(struct vc_onnx_text *t, const struct vc_program_value *type,
                                   struct vc_program_tensor *to);

#define VC_ONNX_ADD(t, list, n, capacity) vc_onnx_one_more(t, &(list), &(n), &(capacity), sizeof *(list))
