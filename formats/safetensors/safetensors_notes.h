/* safetensors_notes.h - the metadata of safetensors files: notes of a key and a text. What becomes of them where files
 * are joined or divided anew, and which of them are second names of tensors. */
#pragma once

#include "core/run/sink.h"
#include "core/text/text.h"

/* A note whose text is JSON: {"second name": "name", ...}. */
#define VC_SAFETENSORS_NAMES "vcompress.names"
/* A note that says which job made the file (safetensors_job.c). It is of the file alone and never copied. */
#define VC_SAFETENSORS_JOB "vcompress.job"

struct safetensors_note {
    const char *key, *value;
    bool is_name; /* the key is a second name in the model: nothing that is copied */
};

struct safetensors_notes {
    size_t n, capacity;
    struct safetensors_note *notes;
};

struct safetensors;
struct safetensors_shard;

/* Copies both strings to the arena. */
enum vc_status vc_safetensors_notes_add(struct vc_ctx *ctx, struct vc_arena *arena, struct safetensors_notes *notes,
                                        const char *key, const char *value);
/* The text of the note with that key; NULL if there is none. */
const char *vc_safetensors_note(const struct safetensors_notes *notes, const char *key);
void vc_safetensors_notes_release(struct vc_ctx *ctx, struct safetensors_notes *notes);

/* Adds the notes of n shards to the text, as "key":"value",...; those that two shards disagree about are left out, and
 * their keys added to `differing`, for people. A note of the key `without` (NULL: none) is left out, and what
 * one says of layers that are no codes in these outputs (comfy.h). Without a "format" it is "pt": loaders ask for it. */
enum vc_status vc_safetensors_notes_text(struct vc_ctx *ctx, const struct safetensors_shard *shards, size_t n,
                                         const char *without, const struct vc_out_list *outs, struct vc_text *text,
                                         struct vc_text *differing);

/* Second names of tensors that are written once become tensors of the model (alias_of), with scales of their own names
 * where there are scales. Ours are listed by VC_SAFETENSORS_NAMES; of notes that other tools make in the same form
 * nobody knows whether they are whole tensors. To be called once all other tensors are known. Nothing is done where the
 * new names would not be unique, and for codes in another layout than plain. */
enum vc_status vc_safetensors_find_names(struct vc_ctx *ctx, struct safetensors *self, struct vc_model *model);
