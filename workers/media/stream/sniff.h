/* workers/media/stream/sniff.h - what a file seems to be, from its name and first bytes. Pure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_SNIFF_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_SNIFF_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
