/* test_arch_windows.c - which layers of a GGUF model look back so far only, where its metadata say no pattern: what
 * llama.cpp takes for granted of each architecture. */
#include "support.h"

#include "arch/arch_family.h"

static void layers_slide_by_the_architecture(void **state)
{
    static const struct {
        const char *architecture;
        const char *layers; /* 's': slides, '.': does not */
    } wanted[] = {
        {"gemma2", "s.s.s.s."},  {"gpt-oss", "s.s.s.s."}, {"gemma3", "sssss.ss"},  {"gemma-embedding", "sssss.ss"},
        {"gemma3n", "ssss.sss"}, {"cohere2", "sss.sss."}, {"exaone4", "sss.sss."}, {"olmo2", "sss.sss."},
        {"llama4", "sss.sss."},  {"llama", "........"},   {"phi3", "........"},    {"smollm3", "........"},
        {"qwen35", "........"},  {"qwen3", "........"},   {"", "........"},        {"unknown", "........"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        for (uint64_t layer = 0; layer < 8; layer++) {
            assert_int_equal(vc_arch_gguf_slides(wanted[k].architecture, layer, 8), wanted[k].layers[layer] == 's');
        }
    }
}

static void one_architecture_has_a_window_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(vc_arch_gguf_window("llama4"), 8192);
    assert_int_equal(vc_arch_gguf_window("gemma3"), 0);
    assert_int_equal(vc_arch_gguf_window("unknown"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_slide_by_the_architecture),
        cmocka_unit_test(one_architecture_has_a_window_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
