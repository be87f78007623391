#include "workers/models/whisper/whisper_heads.h"

#define MAX_HEADS 20

/* Of each published model, as OpenAI found them (the field alignment_heads of its
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
