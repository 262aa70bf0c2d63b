/* families_build.h - the builders of this room, for build.c. */
#pragma once

#include "graph/build.h"

/* Of VC_PROGRAM_CONFIG: the family that model_type names. */
enum vc_status vc_families_build(const struct vc_graph_source *source, struct vc_graph *graph);
/* Of VC_PROGRAM_KEYS: GGUF's llama family. */
enum vc_status vc_families_build_keys(const struct vc_graph_source *source, struct vc_graph *graph);
