/* workers/speakers/kmeans.h - a wanted number of clusters, as pyannote's call of scikit-learn
 * makes them: Lloyd's algorithm from greedy k-means++ starts (Arthur and Vassilvitskii 2007), the
 * best of three, with the draws of RandomState(42). The same vectors give the same
 * clusters, and scikit-learn's but where its float32 sums round otherwise: of two equally good
 * starts, or for a vector half way between two means. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_KMEANS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_KMEANS_H

#include <stdint.h>

#include "base/err.h"

/* vectors: [n][size]; 1 <= clusters <= n. labels: [n]; every cluster has one at least. threads:
 * their number changes nothing. */
int kmeans(const float *vectors, uint32_t n, uint32_t size, uint32_t clusters, uint32_t threads,
           uint32_t *labels, struct err *err);

/* ---- numpy.random.RandomState's uniform draws, as pyannote's clustering gets them
 *
 * The Mersenne twister MT19937 (Matsumoto and Nishimura 1998), and 53 bits of each two numbers. */

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
