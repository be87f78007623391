/* workers/speakers/cluster/draws.h - numpy.random.RandomState's uniform draws: the Mersenne twister
 * MT19937 (Matsumoto and Nishimura 1998) and 53 bits of each two numbers. Gives the same draws as
 * pyannote's clustering. Pure. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_DRAWS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_DRAWS_H

#include <stdint.h>

#define DRAWS_WORDS 624u

struct draws {
    uint32_t words[DRAWS_WORDS];
    uint32_t next; /* the word that comes next; DRAWS_WORDS: all are used */
};

/* Equal to RandomState(seed). */
void draws_seed(struct draws *d, uint32_t seed);
/* Equal to its random_sample(): in [0, 1). */
double draws_next(struct draws *d);

#endif
