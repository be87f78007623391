/* tests/unit/workers/companions.h - a worker that listens with several stages, for its tests:
 * whisper-nano, and rules in place of the models of sounds and voices (fake_voices.h). */
#ifndef NIGHTSHIFT_TESTS_UNIT_WORKERS_COMPANIONS_H
#define NIGHTSHIFT_TESTS_UNIT_WORKERS_COMPANIONS_H

#include "tests/unit/workers/play.h"

enum { TRANSCRIBE, SOUNDS, DIARIZE, STAGES };

/* True when this process is a worker or a decoder, as play_dispatch. From the environment:
 * COMPANIONS_VOICES_MS: that a window takes; _LAG: until so many windows of voices are heard,
 * sounds are slower than they; _WINDOWS, _PATCHES: that a step takes at most; _FAIL: after so many
 * patches sounds fail, with the code _FAIL_CODE. */
bool companions_dispatch(int argc, char **argv, int *status);

/* A worker for a stage, beside it those of the list up to -1. */
struct play_options companions_of(int stage, const int *beside);
/* Gives a whole recording to the worker: m[0] is its own lease, m[k] that of its companion k. */
void companions_lease(struct play *p, const char *path, uint32_t shard_ms, struct msg_lease *m);
/* What a stage makes of a recording alone, as lease 1. The worker runs on: play_quit. */
void companions_alone(int stage, const char *path, uint32_t shard_ms, struct play *ret);
/* Bit for bit: the shards of a lease that are there, and how many. */
uint32_t companions_same(const struct play *alone, const struct play *p, uint64_t lease);

#endif
