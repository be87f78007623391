/* workers/text/hash_seed.h - what a hash table of strings from a file starts from, so that nobody
 * who writes the file can choose strings that all fall on one place. Any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_HASH_SEED_H
#define NIGHTSHIFT_WORKERS_TEXT_HASH_SEED_H

#include <stdint.h>

/* Another one each time; nothing that a table is asked for may depend on it. */
uint64_t hash_seed(void);

#endif
