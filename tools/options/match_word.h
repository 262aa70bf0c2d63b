/* match_word.h - what --match of distill says: "layer3=layer2:mse:0.1". */
#pragma once

#include <vcompress/experimental.h>

#define MATCH_BYTES 512 /* of one word, with the 0 at its end */

/* text: room for MATCH_BYTES, which has the names of *match. false if there is no such loss. */
bool match_word(const char *word, char *text, struct vc_match *match);
