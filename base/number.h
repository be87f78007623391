/* base/number.h - arithmetic that gives the same bits on every machine. Pure.
 *
 * The C library's exp() may differ in its last bit from processor to processor, and a sampled token
 * would then differ too. These use additions and multiplications of doubles alone. */
#ifndef NIGHTSHIFT_BASE_NUMBER_H
#define NIGHTSHIFT_BASE_NUMBER_H

#include <stdint.h>

/* e^x for x <= 0 within 2 units of the last place; 0 below -700 and for NaN. */
double number_exp(double x);

/* The counter-th uniform number in [0, 1) of the stream `seed`: any two differ in 53 bits without
 * pattern (two rounds of splitmix64's finaliser), and none depends on another having been drawn. */
double number_uniform(uint64_t seed, uint64_t counter);

/* A seed for a sub-stream. */
uint64_t number_seed(uint64_t seed, uint64_t name);

#endif
