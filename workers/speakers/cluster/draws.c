#include "workers/speakers/cluster/draws.h"

#define MIDDLE 397u

void draws_seed(struct draws *d, uint32_t seed)
{
    d->words[0] = seed;
    for (uint32_t i = 1; i < DRAWS_WORDS; i++)
        d->words[i] = 1812433253u * (d->words[i - 1] ^ d->words[i - 1] >> 30) + i;
    d->next = DRAWS_WORDS;
}

static void twist(struct draws *d)
{
    for (uint32_t i = 0; i < DRAWS_WORDS; i++) {
        uint32_t y = (d->words[i] & 0x80000000u) | (d->words[(i + 1) % DRAWS_WORDS] & 0x7fffffffu);

        d->words[i] = d->words[(i + MIDDLE) % DRAWS_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    d->next = 0;
}

static uint32_t draw_random_word(struct draws *d)
{
    uint32_t y;

    if (d->next == DRAWS_WORDS)
        twist(d);
    y = d->words[d->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double draws_next(struct draws *d)
{
    uint32_t high = draw_random_word(d) >> 5, low = draw_random_word(d) >> 6;

    return (high * 67108864.0 + low) / 9007199254740992.0;
}
