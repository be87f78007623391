/* tests/unit/workers/tracks.h - a worker that listens with several stages, for its tests:
 * whisper-nano, and rules in place of the models of sounds and voices (fake_voices.h). */
#ifndef NIGHTSHIFT_TESTS_UNIT_WORKERS_TRACKS_H
#define NIGHTSHIFT_TESTS_UNIT_WORKERS_TRACKS_H

#include "tests/unit/workers/play.h"

enum { TRANSCRIBE, SOUNDS, DIARIZE, STAGES };

/* True when this process is a worker or a decoder, as play_dispatch. From the environment:
 * TRACKS_VOICES_MS: that a window takes; _LAG: until so many windows of voices are heard,
 * sounds are slower than they; _WINDOWS, _PATCHES: that a step takes at most; _FAIL: after so many
 * patches sounds fail, with the code _FAIL_CODE. */
bool tracks_dispatch(int argc, char **argv, int *status);

/* A worker for a stage, beside it those of the list up to -1. */
struct play_options tracks_of(int stage, const int *beside);
/* A lease of a whole recording, with a track of each stage; change it, then give it. */
struct msg_lease tracks_lease_of(struct play *p, const char *path, uint32_t shard_ms);
/* Gives it to the worker. Returns its number. */
uint64_t tracks_lease(struct play *p, const char *path, uint32_t shard_ms);
/* Goes on until the lease ends, with this code. */
const struct msg_lease_end *tracks_ended(struct play *p, uint64_t lease, int code);

/* What a stage makes of a recording alone, as lease 1. The worker runs on: play_quit. */
void tracks_alone(int stage, const char *path, uint32_t shard_ms, struct play *ret);
/* The same of 90 s of speech in five shards, computed once. */
#define TRACKS_SHARD_MS 20000
const char *tracks_speech(void);
const struct play *tracks_alone_of(int stage);
/* Bit for bit: the shards of a lease's track that are there, and how many. */
uint32_t tracks_same(const struct play *alone, const struct play *p, uint64_t lease,
                     uint32_t track);

#endif
