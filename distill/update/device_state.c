/* device_state.c - see device_state.h; the functions are declared in device_step.h. */
#include "distill/update/device_state.h"

#include "distill/update/fake_quant.h"

bool vc_device_uses_nccl(const struct vc_learner *l)
{
    return l->on_device != NULL && l->on_device->nccl;
}

/* The host's states and masks are the newer ones: the next step sends them. */
void vc_device_changed(struct vc_learner *l)
{
    if (l->device != NULL) {
        l->on_device->changed = true;
        l->on_device->newer_on_device = false;
    }
}

enum vc_status vc_device_late(struct vc_learner *l, bool *late, struct vc_loss_sums *sums, bool *fault)
{
    struct vc_device_step *d = l->on_device;
    struct vc_train_fault noted;

    *late = d != NULL && d->late;
    *fault = false;
    if (*late) {
        *sums = d->losses;
        *fault = d->fault;
        d->late = false;
    }
    return *fault ? vc_train_result(l->device, l->device->table->fault(l->device->session, &noted)) : VC_OK;
}

/* Weights, and what else the device has moved since the last time. */
enum vc_status vc_device_to_host(struct vc_learner *l)
{
    if (l->device == NULL) {
        return VC_OK;
    }
    VC_CALL(vc_weights_to_host(l->net.weights));
    if (l->on_device->newer_on_device) {
        VC_CALL(vc_train_to_host(l->device, l->optimizer.block, l->on_device->states, l->report->state_bytes));
        if (l->fake_quants != NULL) {
            VC_CALL(
                vc_train_to_host(l->device, *vc_fake_quant_room(l), l->on_device->fake_quants, vc_fake_quant_bytes(l)));
        }
        l->on_device->newer_on_device = false;
    }
    return VC_OK;
}
