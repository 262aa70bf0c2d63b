/* command_table.c - the commands, in the order of the help. Tests have tables of their own. */
#include "tools/commands/commands.h"

/* In the order of `vcompress --help`. */
const struct command *const commands[] = {
    &command_shrink,   &command_quantize,   &command_prune,    &command_distill,    &command_merge,
    &command_run,      &command_dequantize, &command_convert,  &command_index,      &command_inspect,
    &command_graph,    &command_evaluate,   &command_logits,   &command_calibrate,  &command_sensitivity,
    &command_diff,     &command_verify,     &command_selftest, &command_devices,    &command_gpus,
    &command_estimate, &command_fit,        &command_plan,     &command_completion, &command_help,
};
const size_t n_commands = sizeof(commands) / sizeof(commands[0]);
