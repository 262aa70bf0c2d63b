/* data_rows.h - how rows of a file become inputs: the same options in every command that reads rows. Rows of a table of options;
 * needs_: the option without which they do nothing; `member` of the command's structure begins the names of the fields. */
#pragma once

/* Rows of files that hold nothing but tokens, or of a text. take_length_: a function of type opt_call_fn, since 0 is refused. */
#define TOKEN_ROWS(type, take_length_, member, needs_)                                                             \
    {.name = "length",                                                                                             \
     .value = "N",                                                                                                 \
     .kind = OPT_CALL,                                                                                             \
     .call = take_length_,                                                                                         \
     .option = "length",                                                                                           \
     .wanted = "a number from 1 on",                                                                               \
     .needs = needs_,                                                                                              \
     .help = "N tokens are a row: of a file of nothing but tokens, as written by nanoGPT and llm.c, or of a text " \
             "(.txt, or "                                                                                          \
             ".jsonl with \"text\" in each line), which the tokenizer in the model's folder makes tokens of"},     \
    {                                                                                                              \
        .name = "token-bits", .value = "16|32", .kind = OPT_COUNT, OPT_FIELD(type, member.token_bits),             \
        .needs = "length",                                                                                         \
        .help = "bits of a token; not for a text, and not for a file of llm.c, whose header has them (default 16)" \
    }
/* Float inputs become (x * scale - mean) / std before the network gets them. */
#define NORMALIZE_ROWS(type, member, needs_)                                                                   \
    {.name = "scale",                                                                                          \
     .value = "X",                                                                                             \
     .kind = OPT_REAL,                                                                                         \
     OPT_FIELD(type, member.scale),                                                                            \
     .needs = needs_,                                                                                          \
     .help = "multiply float inputs by X, such as 0.00392156862745098 for bytes (default 1)"},                 \
        {.name = "mean",                                                                                       \
         .value = "X,...",                                                                                     \
         .kind = OPT_TEXT,                                                                                     \
         OPT_FIELD(type, member.mean),                                                                         \
         .needs = needs_,                                                                                      \
         .help = "then subtract X: one number, or one for each channel"},                                      \
    {                                                                                                          \
        .name = "std", .value = "X,...", .kind = OPT_TEXT, OPT_FIELD(type, member.deviation), .needs = needs_, \
        .help = "then divide by X: one number, or one for each channel"                                        \
    }
