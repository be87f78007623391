/* workers/media/wire.h - what a decoder process and its parent say to each other.
 *
 *   parent                        decoder
 *      |  ----- WIRE_REQUEST -----> |   before it is started: it waits in the socket
 *      |  <--- WIRE_INFO/ENTRY ---- |   an info may come once more, with the same sources
 *      |  <------- WIRE_PCM ------- |
 *      |  ------ WIRE_ANSWER -----> |   to each WIRE_ENTRY of a WIRE_TASK_UNPACK
 *      |  <------ WIRE_BYTES ------ |   if it is wanted, and of all when listing; an empty one
 *      |                            |   behind the last, or the entry once more, with its error
 *      |  <------ WIRE_PULSE ------ |   still reading, nothing to tell yet
 *      |  <-- WIRE_END | WIRE_ERROR |   last
 *
 * Both are the same program, so there is no version here; but the decoder may be in the hands of
 * the bytes that it parses, so every get checks lengths and ranges. All but audio and WIRE_BYTES
 * are tables of fields (workers/wire/fields.h); *ret is zeroed on failure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_WIRE_H
#define NIGHTSHIFT_WORKERS_MEDIA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"
#include "workers/wire/fields.h"

#define WIRE_MEMBER_MAX 32768u  /* bytes of a member's name */
#define WIRE_PCM_SAMPLES 16000u /* at most so many in one frame */

#define WIRE_FIRST 64
enum wire_type {
    WIRE_REQUEST = WIRE_FIRST,
    WIRE_INFO,
    WIRE_PCM,
    WIRE_ENTRY,
    WIRE_PULSE,
    WIRE_END,
    WIRE_ERROR,
    WIRE_SANDBOX,
    WIRE_ANSWER,
    WIRE_BYTES,
};

enum wire_task { WIRE_TASK_DECODE, WIRE_TASK_LIST, WIRE_TASK_UNPACK, WIRE_TASK_SANDBOX };

struct wire_request {
    uint8_t task; /* enum wire_task */
    uint32_t parent_pid;
    const char *member;
    uint32_t nth; /* which of that name is looked at first */
    int64_t skip_samples;
    bool want_hash, has_fingerprint;
    uint8_t headerless; /* as a stream's */
    uint8_t fingerprint[16];
    struct hearing hearing;
    struct decoder_limits limits; /* no zeros: defaults are filled in */
};

struct wire_answer {
    bool wanted;
};

/* The table of a type; NULL where it has none. */
const struct fields *wire_fields(uint8_t type);

FIELDS_PUT(wire_put_request, wire_request, wire_fields(WIRE_REQUEST))
FIELDS_GET(wire_get_request, wire_request, wire_fields(WIRE_REQUEST))
FIELDS_FREE(wire_request_free, wire_request, wire_fields(WIRE_REQUEST))
FIELDS_PUT(wire_put_info, decoder_info, wire_fields(WIRE_INFO))
FIELDS_GET(wire_get_info, decoder_info, wire_fields(WIRE_INFO))
FIELDS_FREE(wire_info_free, decoder_info, wire_fields(WIRE_INFO))
FIELDS_PUT(wire_put_entry, decoder_entry, wire_fields(WIRE_ENTRY))
FIELDS_GET(wire_get_entry, decoder_entry, wire_fields(WIRE_ENTRY))
FIELDS_FREE(wire_entry_free, decoder_entry, wire_fields(WIRE_ENTRY))
FIELDS_PUT(wire_put_end, decoder_end, wire_fields(WIRE_END))
FIELDS_GET(wire_get_end, decoder_end, wire_fields(WIRE_END))
FIELDS_FREE(wire_end_free, decoder_end, wire_fields(WIRE_END))
FIELDS_PUT(wire_put_error, err, wire_fields(WIRE_ERROR))
FIELDS_GET(wire_get_error, err, wire_fields(WIRE_ERROR)) /* *ret: what the decoder says */
FIELDS_PUT(wire_put_sandbox, sandbox_report, wire_fields(WIRE_SANDBOX))
FIELDS_GET(wire_get_sandbox, sandbox_report, wire_fields(WIRE_SANDBOX))
FIELDS_PUT(wire_put_answer, wire_answer, wire_fields(WIRE_ANSWER))
FIELDS_GET(wire_get_answer, wire_answer, wire_fields(WIRE_ANSWER))

void wire_put_pcm(struct buf *out, const int16_t *pcm, size_t n, int64_t at_sample);
/* The samples go to pcm, room for WIRE_PCM_SAMPLES. */
int wire_get_pcm(const uint8_t *data, size_t len, int16_t *pcm, size_t *n, int64_t *at_sample,
                 struct err *err);

#endif
