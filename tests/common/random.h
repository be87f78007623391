/* tests/common/random.h - a seeded generator, and probabilities as a voice would give them. */
#ifndef NIGHTSHIFT_TESTS_COMMON_RANDOM_H
#define NIGHTSHIFT_TESTS_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) >> 32) % n;
}

/* Bursts of high and low, of 1 to `longest` steps each, with a fifth of them in between. */
static inline void random_probs(uint64_t *state, float *prob, size_t n, uint32_t longest)
{
    for (size_t i = 0; i < n;) {
        size_t end = i + 1 + random_below(state, longest);
        uint32_t kind = random_below(state, 5);

        for (; i < n && i < end; i++) {
            float noise = (float)random_below(state, 1000) / 1000.0f;

            prob[i] = kind == 4 ? noise : kind % 2 ? 0.7f + 0.3f * noise : 0.3f * noise;
        }
    }
}

#endif
