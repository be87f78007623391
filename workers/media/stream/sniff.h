/* workers/media/stream/sniff.h - what a file seems to be, from its name and first bytes. Pure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_SNIFF_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum media_kind {
    MEDIA_RECORDING, /* enqueue it: a recording's name or a recording's first bytes */
    MEDIA_ARCHIVE,   /* look inside */
    MEDIA_OTHER,     /* leave it alone: text, pictures, programs ... */
};

/* By the name alone; 1 when it decides (*ret set), 0 when the first bytes must. */
int sniff_name(const char *name, enum media_kind *ret);
/* By the name alone: a piece of a split archive ("a.7z.001", "a.part1.rar", "a.z01", "a.tgz.aa").
 */
bool sniff_is_part(const char *name);
/* The first bytes to read: 262 are enough for a tar, these for two frames of any bare stream. */
#define SNIFF_HEAD_BYTES 4096u

/* By the first bytes. */
enum media_kind sniff_bytes(const void *head, size_t len);
/* By the first bytes: the header of a known kind, and not frames that only look like one. */
bool sniff_has_header(const void *head, size_t len);
/* By the first bytes: of an archive, that a member is found without unpacking those before it. */
bool sniff_finds_members(const void *head, size_t len);

/* ---- recordings that their bytes alone do not tell: telephone formats without a header, whose
 * name says all, and kinds that nothing here can decode */

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
