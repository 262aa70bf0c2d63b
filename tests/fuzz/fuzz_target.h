/* fuzz_target.h - what the fuzz targets share. */
#pragma once

#include <string.h>

#include <vcompress/graph.h>
#include <vcompress/job.h>

#include "core/model/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* One context for the whole run, limited to 256 MiB. */
struct vc_ctx *fuzz_ctx(void);

/* Bytes of its pool that somebody still has; the table of kernels, which stays, does not count. */
uint64_t fuzz_in_use(void);

/* Opens the bytes as a file, reads all tensors in both forms, then verifies the file, and aborts where a promise is
 * broken: a status without a sentence, memory that was not given back, an error of our own making, a file that is
 * fine for verify and not for the reader, or damage to a file of a known format without a report. */
void fuzz_one(const uint8_t *data, size_t n, enum vc_dtype void_as);
void fuzz_path(const char *path, enum vc_dtype void_as); /* the same of a file or folder that is there */

/* Plans and runs a job without an output in a context of its own: int8 for every tensor that can have it (channels, or
 * groups of 4), or `back` to floats. Aborts where that is an error of our own making. */
void fuzz_job(const char *path, bool back, bool groups, const char *layout);

/* Computes a graph, prints it and reads that (fuzz_look.c). model: of its parameters, or NULL. */
void fuzz_look(struct vc_graph *graph, const struct vc_model *model);

/* The bytes as a file; good until the next call. */
const char *fuzz_file(const uint8_t *data, size_t n);

/* A file in memory, whose path is /proc/self/fd/<the result>, and what is in it from now on. */
int fuzz_memory(void);
int fuzz_file_in(const char *folder, const char *name); /* a file in the folder, open for writing */
/* folder_make in memory where the system has files there: looking for files costs most of a run. */
void fuzz_folder(char *path, size_t capacity);
void fuzz_store(int fd, const uint8_t *data, size_t n);

/* Hands data to `each` as it is where it begins as such files do (n_known bytes of start), else behind all of start;
 * not where it has max_bytes or more. */
void fuzz_begin_with(const void *start, size_t n_start, size_t n_known, const uint8_t *data, size_t n, size_t max_bytes,
                     void (*each)(const uint8_t *data, size_t n));

/* The same for safetensors: what begins with '{' gets the length of the JSON, which ends at the last '}', in front. */
void fuzz_safetensors(const uint8_t *data, size_t n, size_t max_bytes, void (*each)(const uint8_t *data, size_t n));

/* Aborts, with the sentence of ctx, where a promise is not kept. */
void fuzz_promise(bool kept, const char *what, const struct vc_ctx *ctx);
