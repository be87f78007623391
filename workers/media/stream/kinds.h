/* workers/media/stream/kinds.h - recordings that their bytes alone do not tell: telephone formats
 * without a header, whose name says all, and kinds that nothing here can decode. Pure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_KINDS_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_KINDS_H

#include <stddef.h>
#include <stdint.h>

#include "workers/media/stream/sniff.h"

/* Mono samples without a header. */
struct headerless {
    const char *ending;  /* of a name, without its dot */
    const char *demuxer; /* FFmpeg's */
    const char *option;  /* the demuxer's that `value` is for, or NULL */
    uint32_t value;
    uint16_t wav_tag; /* not 0: the demuxer wants such a WAV header before the bytes, of */
    uint16_t wav_bits;
    uint32_t wav_rate_hz;
};

/* From 1 on; 0: the name is none of theirs. */
uint8_t headerless_of(const char *name);
#define HEADERLESS_MAX 32u
const struct headerless *headerless_at(uint8_t number); /* NULL: there is none of this number */
/* May a file of such a name that begins so be one? Not with a known header, and not when it is text
 * or another program's file of that ending. 0 for an empty file. */
int headerless_fits(const void *head, size_t len);

/* By the first bytes, and where these say nothing by the name of a kind without a header. */
enum media_kind kind_of_file(const char *name, const void *head, size_t len);

/* The sentence for a known kind of recording that nothing here can decode: its name and a program
 * that converts it. Static. NULL: it is none. name may be "". */
const char *undecodable(const char *name, const void *head, size_t len);

#endif
