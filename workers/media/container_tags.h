/* workers/media/container_tags.h - what a container says of its recording, gathered within bounds.
 * Runs inside the decoder process; one thread.
 *
 * Whatever stands in a file, a list holds at most RESULT_TAGS_MAX tags and TAGS_BYTES of text, all
 * of it valid UTF-8: ill-formed bytes become U+FFFD, control characters blanks, and texts that are
 * too long are cut between two characters. Tags beyond that are dropped. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_CONTAINER_TAGS_H
#define NIGHTSHIFT_WORKERS_MEDIA_CONTAINER_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workers/results.h"

#define TAGS_BYTES ((size_t)256 << 10)

struct media;

struct tag_list {
    struct result_tag *list; /* owned, with its keys and values; sources are literals */
    uint32_t count, capacity;
    size_t bytes; /* of keys and values */
    bool failed;  /* memory ran out */
};

/* source: a literal. A value of blanks alone is no tag. */
void tag_list_put(struct tag_list *l, const char *source, const char *key, const char *value);
/* start_ms and end_ms may be anything; title NULL: it has none. */
void tag_list_chapter(struct tag_list *l, int64_t start_ms, int64_t end_ms, const char *title);
void tag_list_free(struct tag_list *l);

/* Reads the container, its audio track, a WAV file's bext and iXML, and the chapters. Skips
 * embedded pictures and tags that only describe the file's making. */
void tags_of_media(const struct media *m, struct tag_list *ret);

/* ---- the tags of an iXML chunk, as recorders on film sets write it into WAV files. Pure; any
 * thread. */

#define IXML_KEY_MAX 128
#define IXML_VALUE_MAX 16384 /* what is longer is cut there */

/* Calls fn for each element that holds nothing but text, in order. The key is its path below the
 * outermost element: "SCENE", "SPEED/NOTE", "TRACK_LIST/TRACK/NAME". Ignores unknown elements, and
 * ends silently where the text is not XML. `text` may hold anything. Both strings are valid during
 * the call only; the value may be empty. */
void ixml_scan(const char *text, void (*fn)(void *arg, const char *key, const char *value),
               void *arg);

#endif
