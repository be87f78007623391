/* store/register/likeness.h - how alike two voices are, and from where on that means the same
 * person. Pure; any thread.
 *
 * The likeness of two vectors is the cosine of the angle between them. The meaning of a value
 * differs between speaker encoders, and is measured: how often two different people's voices are
 * that alike. A comparison with n voices has n chances of a mistake. So the required likeness
 * rises with n, such that n times that share stays below LIKENESS_DOUBT. If a model was not
 * measured far enough, nothing is alike enough. */
#ifndef NIGHTSHIFT_STORE_REGISTER_LIKENESS_H
#define NIGHTSHIFT_STORE_REGISTER_LIKENESS_H

#include <stddef.h>
#include <stdint.h>

#define LIKENESS_DOUBT 0.05 /* that somebody else among those it is compared with is as alike */
/* The limit for suggesting names, which a person confirms, if the model was not measured. It is
 * high, because most speaker encoders give two people less than 0.7 nearly always. */
#define LIKENESS_UNMEASURED 0.8
#define LIKENESS_LEAST_MS                                                  \
    8000 /* who speaks less than that has too little of a voice to compare \
          */

struct likeness_step { /* ascending in `from`, descending in `wrong` */
    double from;       /* a likeness */
    double wrong;      /* share of the pairs of different voices that are at least as alike */
};
struct likeness_measure {
    const char *model_hash;
    const struct likeness_step *steps;
    size_t count;
};
/* Every model that was measured; docs/measurements.md has what was done, and
 * tools/dev/train/diarization/recognise.py does it again. */
extern const struct likeness_measure likeness_measures[];
extern const size_t likeness_measures_count;

/* NULL: nobody measured that model. */
const struct likeness_measure *likeness_measure_of(const char *model_hash);
/* The least likeness at which one of `among` people is proposed, or one of `among` voices taken for
 * the same person's. INFINITY: none is enough. m NULL is fine. */
double likeness_name_from(const struct likeness_measure *m, size_t among);
double likeness_group_from(const struct likeness_measure *m, size_t among);

/* Makes it of length 1. -1: it has none, or not a finite one; then it is not changed. */
int likeness_unit(float *vector, size_t n);
double likeness_product(const float *a, const float *b, size_t n);

#endif
