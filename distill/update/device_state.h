/* device_state.h - what lies on the device beside the networks, and whether it or the host is newer; shared by the files
 * of a step on a device. */
#pragma once

#include "distill/update/device_step.h"

/* All of it in one block of device memory, and arrays for what goes there and comes back in one of the host. */
struct vc_device_step {
    void *block;
    uint64_t bytes;
    bool changed;         /* states and masks of the host are newer */
    bool newer_on_device; /* states of the device are */
    bool late;            /* the losses of the batch come with the norm */
    uint64_t late_rows;
    struct vc_loss_sums losses; /* they, behind vc_device_measure */
    bool fault;                 /* a pass before it met an index out of range */
    bool nccl;                  /* adds up the gradients of ranks, whose devices have their own sums */
    /* Within the block: */
    char *states;
    uint8_t *keep; /* of the trained tensors that have masks, one after the other */
    struct vc_train_block *blocks;
    double *squares, *sums;
    float *total, *teacher;
    int64_t *labels;
    uint8_t *mask;
    struct vc_dynamic_maps *maps;
    char *fake_quants; /* of the block of vc_fake_quant_room: masters and scales */
};
