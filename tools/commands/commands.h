/* commands.h - the commands, one file each: cmd_NAME.c has its options, its text for --help, and its run function. A
 * new command is a file, a declaration here, and a row in the list of commands (command_table.c), which --help,
 * completions, the manual pages and python/ follow. */
#pragma once

#include "tools/options/options.h"

/* search: a limit becomes a checked file */
extern const struct command command_shrink;
/* passes, and `run` for several of them */
extern const struct command command_quantize;
extern const struct command command_prune;
extern const struct command command_merge;
extern const struct command command_distill;
extern const struct command command_evaluate;
extern const struct command command_logits;
extern const struct command command_calibrate;
extern const struct command command_run;
/* other files with the same model */
extern const struct command command_dequantize;
extern const struct command command_convert;
extern const struct command command_index;
/* looking: nothing is written but documents */
extern const struct command command_inspect;
extern const struct command command_sensitivity;
extern const struct command command_graph;
extern const struct command command_diff;
extern const struct command command_verify;
/* this machine */
extern const struct command command_selftest;
extern const struct command command_devices;
/* memory, on devices that need not be there */
extern const struct command command_gpus;
extern const struct command command_estimate;
extern const struct command command_fit;
extern const struct command command_plan;
/* about the program itself */
extern const struct command command_completion;
extern const struct command command_help;
extern const struct command command_model; /* vcompress MODEL, without a command */
