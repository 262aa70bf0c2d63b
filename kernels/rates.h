/* rates.h - the table of rates.inc, for whoever chooses a device. */
#pragma once

/* Weights a second. */
struct vc_rate {
    const char *scheme;
    double cpu;  /* of one processor */
    double card; /* of the card; 0: processors are as fast, and it is never asked */
};

/* What a machine does in a second, or how many it takes; rates.inc has the units. */
enum vc_machine_rate {
#define VC_MACHINE(name, value) name,
#include "kernels/rates.inc"
    VC_MACHINE_COUNT
};

/* The row of "int4/group:128", by the word before the slash, or else its letters; NULL if there is none, or `scheme` is NULL. */
const struct vc_rate *vc_rate_of(const char *scheme);

/* VC_CARD_START as the environment's variable has it, and -1 where that is no number from 0 to 1000: passes/device_choice.h. */
#define VC_CARD_START_VARIABLE "VCOMPRESS_CARD_START"
double vc_machine_rate(enum vc_machine_rate what);
