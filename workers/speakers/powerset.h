/* workers/speakers/powerset.h - the classes of a segmentation network that tells sets of speakers:
 * first nobody, then one by one, then every two in order ({0,1}, {0,2}, {1,2}), then every three
 * ... up to how many may speak at once (Plaquet and Bredin: Powerset multi-class cross entropy loss
 * for neural speaker diarization, 2023). */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_POWERSET_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_POWERSET_H

#include <stdint.h>

#define POWERSET_MAX_SPEAKERS 8u
#define POWERSET_MAX_CLASSES 256u

/* How many classes there are; 0: impossible (1 .. 8 speakers, 1 .. speakers at once). */
uint32_t powerset_classes(uint32_t speakers, uint32_t at_once);
/* sets[class]: bit s: speaker s. Returns as powerset_classes. */
uint32_t powerset_sets(uint32_t speakers, uint32_t at_once, uint8_t sets[POWERSET_MAX_CLASSES]);
/* How many speakers a network of so many classes tells, 0: none that fits. at_once as above. */
uint32_t powerset_speakers(uint32_t classes, uint32_t at_once);
/* The set of the highest score of one frame (the first of equals; a NaN is never the highest). */
uint8_t powerset_best(const uint8_t *sets, const float *scores, uint32_t classes);

#endif
