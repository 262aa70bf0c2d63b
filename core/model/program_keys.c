/* program_keys.c - the one reader of a VC_PROGRAM_KEYS: see program.h. */

#include "core/model/program.h"

const struct vc_program_key *vc_program_key(const struct vc_program *program, const char *architecture,
                                            const char *name)
{
    size_t n = strlen(architecture);

    for (size_t i = 0; i < program->n_keys; i++) {
        const char *key = program->keys[i].key;

        if (strncmp(key, architecture, n) == 0 && key[n] == '.' && strcmp(key + n + 1, name) == 0) {
            return &program->keys[i];
        }
    }
    return NULL;
}

const char *vc_program_architecture(const struct vc_program *program)
{
    const struct vc_program_key *key = vc_program_key(program, "general", "architecture");

    return key != NULL && key->is_text ? key->text : "";
}

int64_t vc_program_number(const struct vc_program *program, const char *architecture, const char *name, uint64_t layer,
                          int64_t otherwise)
{
    const struct vc_program_key *key = vc_program_key(program, architecture, name);

    if (key == NULL) {
        return otherwise;
    }
    if (key->integers != NULL) {
        return layer < key->n ? key->integers[layer] : otherwise;
    }
    return key->is_integer ? key->integer : otherwise;
}
