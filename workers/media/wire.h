/* workers/media/wire.h - what a decoder process and its parent say to each other.
 *
 *   parent                        decoder
 *      |  ----- WIRE_REQUEST -----> |   before it is started: it waits in the socket
 *      |  <--- WIRE_INFO/ENTRY ---- |
 *      |  <------- WIRE_PCM ------- |
 *      |  <------ WIRE_PULSE ------ |   still reading, nothing to tell yet
 *      |  <-- WIRE_END | WIRE_ERROR |   last
 *
 * Both are the same program, so there is no version here; but the decoder may be in the hands of
 * the bytes that it parses, so every get checks lengths and ranges and leaves *ret alone on
 * failure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_WIRE_H
#define NIGHTSHIFT_WORKERS_MEDIA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"

#define WIRE_MEMBER_MAX 32768u  /* bytes of a member's name */
#define WIRE_PCM_SAMPLES 16000u /* at most so many in one frame */

enum wire_type {
    WIRE_REQUEST = 64,
    WIRE_INFO,
    WIRE_PCM,
    WIRE_ENTRY,
    WIRE_PULSE,
    WIRE_END,
    WIRE_ERROR,
    WIRE_SANDBOX,
};

enum wire_task { WIRE_TASK_DECODE, WIRE_TASK_LIST, WIRE_TASK_SANDBOX };

struct wire_request {
    uint8_t task; /* enum wire_task */
    uint32_t parent_pid;
    const char *member; /* borrowed */
    uint32_t nth;       /* which of that name is looked at first */
    int64_t skip_samples;
    bool want_hash, has_fingerprint;
    uint8_t fingerprint[16];
    struct decoder_limits limits; /* no zeros: defaults are filled in */
};

void wire_put_request(struct buf *out, const struct wire_request *m);
/* *member is newly allocated: free it; ret->member points there. */
int wire_get_request(const uint8_t *data, size_t len, struct wire_request *ret, char **member,
                     struct err *err);
void wire_put_info(struct buf *out, const struct decoder_info *m);
int wire_get_info(const uint8_t *data, size_t len, struct decoder_info *ret, struct err *err);
void wire_put_pcm(struct buf *out, const int16_t *pcm, size_t n, int64_t at_sample);
/* The samples go to pcm, room for WIRE_PCM_SAMPLES. */
int wire_get_pcm(const uint8_t *data, size_t len, int16_t *pcm, size_t *n, int64_t *at_sample,
                 struct err *err);
void wire_put_entry(struct buf *out, const struct decoder_entry *m);
/* *member and *message are newly allocated: free them; ret->member and ret->message point there. */
int wire_get_entry(const uint8_t *data, size_t len, struct decoder_entry *ret, char **member,
                   char **message, struct err *err);
void wire_put_end(struct buf *out, const struct decoder_end *m);
/* *damage is newly allocated: free it; ret->damage points there. */
int wire_get_end(const uint8_t *data, size_t len, struct decoder_end *ret, char **damage,
                 struct err *err);
void wire_put_error(struct buf *out, const struct err *m);
/* Fills *what with the decoder's error; returns 0 or ERR_PROTOCOL. */
int wire_get_error(const uint8_t *data, size_t len, struct err *what, struct err *err);
void wire_put_sandbox(struct buf *out, const struct sandbox_report *m);
int wire_get_sandbox(const uint8_t *data, size_t len, struct sandbox_report *ret, struct err *err);

#endif
