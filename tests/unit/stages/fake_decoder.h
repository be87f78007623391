/* tests/unit/stages/fake_decoder.h - a decoder that is a formula, and a driver that runs windows on
 * it as the real one does, with a cache for each branch.
 *
 * What follows a sequence of tokens is a function of the seed and of all the tokens: a hypothesis
 * that is continued in the wrong branch, or at the wrong position, gets other tokens. The ids are
 * those of the nano model's tokenizer; few of them are possible at all. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STAGES_FAKE_DECODER_H
#define NIGHTSHIFT_TESTS_UNIT_STAGES_FAKE_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/backend.h"
#include "workers/stages/transcribe/decode/decoding.h"

#define FAKE_EOT 640
#define FAKE_SOT 641
#define FAKE_EN 642
#define FAKE_ES 643
#define FAKE_TRANSLATE 644
#define FAKE_TRANSCRIBE 645
#define FAKE_SOT_PREV 647
#define FAKE_NO_TIMESTAMPS 649
#define FAKE_TIMES 650 /* <|0.00|> */
#define FAKE_POSITIONS 64

struct fake_model {
    uint64_t seed;
    double sharpness; /* of the distributions */
    double end;       /* the end's logit grows by this with each token */
    bool coarse;      /* logits that are often equal */
    double silence;   /* share of the sequences at whose start nobody speaks */
};

/* The nano tokenizer's vocabulary, or the same as an English-only one's. */
struct vocabulary *fake_vocabulary(bool multilingual);

/* What is asked of the logits after tokens[0..n). top: NULL or k candidates. */
void fake_choose(const struct fake_model *m, const int32_t *tokens, uint32_t n,
                 const struct choice_ask *ask, struct choice *ret, struct candidate *top,
                 uint32_t k);

/* Decodes the window that was begun, with this language (-1: the one that is heard), and returns
 * the number of rows that it took. Fails the test when rows and moves break their contracts. */
uint32_t fake_drive(const struct fake_model *m, struct decoding *d, uint32_t branches,
                    uint32_t room, int32_t language);

#endif
