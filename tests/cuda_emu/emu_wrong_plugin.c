/* emu_wrong_plugin.c - plug-ins that the loader must refuse: of another version, or with no entry at all. */
#include "kernels/device/backend.h"

#if defined(WRONG_ABI)
VC_API const struct vc_backend *vc_backend_entry(void);

const struct vc_backend *vc_backend_entry(void)
{
    static const struct vc_backend backend = {.abi = VC_BACKEND_ABI + 1, .struct_size = sizeof backend};

    return &backend;
}
#else
VC_API int vc_some_other_entry(void);

int vc_some_other_entry(void)
{
    return 0;
}
#endif
