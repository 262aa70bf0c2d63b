/* commands.h - the commands, one file each. */
#ifndef VC_TOOLS_COMMANDS_H
#define VC_TOOLS_COMMANDS_H

#include "tools/options/options.h"

extern const struct command command_shrink;
extern const struct command command_quantize;
extern const struct command command_prune;
extern const struct command command_merge;
extern const struct command command_distill;
extern const struct command command_evaluate;
extern const struct command command_logits;
extern const struct command command_calibrate;
extern const struct command command_run;
extern const struct command command_dequantize;
extern const struct command command_convert;
extern const struct command command_index;
extern const struct command command_inspect;
extern const struct command command_sensitivity;
extern const struct command command_graph;
extern const struct command command_diff;
extern const struct command command_verify;
extern const struct command command_selftest;
extern const struct command command_devices;
extern const struct command command_gpus;
extern const struct command command_estimate;
extern const struct command command_fit;
extern const struct command command_plan;
extern const struct command command_completion;
extern const struct command command_help;
extern const struct command command_model; /* vcompress MODEL, without a command */

#endif
