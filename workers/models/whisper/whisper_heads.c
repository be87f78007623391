#include "workers/models/whisper/whisper_heads.h"

#include "workers/text/tokenizer/vocabulary.h"

#define MAX_HEADS 20

/* The alignment heads that OpenAI found for each published model (the field alignment_heads of its
 * generation_config.json on Hugging Face). */
static const struct {
    uint32_t vocab_size, d_model, decoder_layers;
    uint8_t count;
    uint8_t head[MAX_HEADS][2];
} known[] = {
    /* tiny.en */
    {51864, 384, 4, 8, {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}}},
    /* tiny */
    {51865, 384, 4, 6, {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}}},
    /* base.en */
    {51864, 512, 6, 5, {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}}},
    /* base */
    {51865, 512, 6, 8, {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1}, {5, 2}, {5, 4}, {5, 6}}},
    /* small.en */
    {51864,
     768,
     12,
     19,
     {{6, 6},
      {7, 0},
      {7, 3},
      {7, 8},
      {8, 2},
      {8, 5},
      {8, 7},
      {9, 0},
      {9, 4},
      {9, 8},
      {9, 10},
      {10, 0},
      {10, 1},
      {10, 2},
      {10, 3},
      {10, 6},
      {10, 11},
      {11, 2},
      {11, 4}}},
    /* small */
    {51865,
     768,
     12,
     10,
     {{5, 3}, {5, 9}, {8, 0}, {8, 4}, {8, 7}, {8, 8}, {9, 0}, {9, 7}, {9, 9}, {10, 5}}},
    /* medium.en */
    {51864,
     1024,
     24,
     18,
     {{11, 4},
      {14, 1},
      {14, 12},
      {14, 14},
      {15, 4},
      {16, 0},
      {16, 4},
      {16, 9},
      {17, 12},
      {17, 14},
      {18, 7},
      {18, 10},
      {18, 15},
      {20, 0},
      {20, 3},
      {20, 9},
      {20, 14},
      {21, 12}}},
    /* medium */
    {51865, 1024, 24, 6, {{13, 15}, {15, 4}, {15, 15}, {16, 1}, {20, 0}, {23, 4}}},
    /* large-v3 */
    {51866,
     1280,
     32,
     10,
     {{7, 0},
      {10, 17},
      {12, 18},
      {13, 12},
      {16, 1},
      {17, 14},
      {19, 11},
      {21, 4},
      {24, 1},
      {25, 6}}},
    /* large-v3-turbo */
    {51866, 1280, 4, 6, {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}}},
};

const uint8_t (*whisper_known_heads(const struct whisper_config *c, size_t *n))[2]
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].vocab_size == c->vocab_size && known[i].d_model == c->d_model &&
            known[i].decoder_layers == c->decoder_layers) {
            *n = known[i].count;
            return known[i].head;
        }
    }
    *n = 0;
    return NULL;
}

/* The i-th head of a model that names none. */
static struct whisper_head upper_head(const struct whisper_config *c, uint32_t i)
{
    return (struct whisper_head){c->decoder_layers / 2 + i / c->decoder_heads,
                                 i % c->decoder_heads};
}

uint32_t whisper_heads(const struct vocabulary *v, const struct whisper_config *c,
                       struct whisper_head *ret, uint32_t max)
{
    const uint32_t layers = c->decoder_layers, heads = c->decoder_heads;
    size_t named = 0, found = 0;
    const int32_t(*own)[2] = v ? vocabulary_alignment_heads(v, &named) : NULL;
    uint32_t n, put = 0, seen = 0;

    for (size_t i = 0; i < named; i++)
        found += (uint32_t)own[i][0] < layers && (uint32_t)own[i][1] < heads;
    n = found ? (uint32_t)found : (layers - layers / 2) * heads;
    for (uint32_t i = 0; i < (found ? named : n); i++) {
        struct whisper_head head;

        if (found) {
            head = (struct whisper_head){(uint32_t)own[i][0], (uint32_t)own[i][1]};
            if (head.layer >= layers || head.head >= heads)
                continue;
        } else
            head = upper_head(c, i);
        /* All when there is room; else the one that each of `max` equal parts ends with. */
        if (put < max && (n <= max || (uint64_t)(seen + 1) * max / n > put))
            ret[put++] = head;
        seen++;
    }
    return n;
}
