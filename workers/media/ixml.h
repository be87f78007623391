/* workers/media/ixml.h - the tags of an iXML chunk, as recorders on film sets write it into WAV
 * files. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_IXML_H
#define NIGHTSHIFT_WORKERS_MEDIA_IXML_H

#define IXML_KEY_MAX 128
#define IXML_VALUE_MAX 16384 /* what is longer is cut there */

/* Calls fn for each element that holds nothing but text, in order. The key is its path below the
 * outermost element: "SCENE", "SPEED/NOTE", "TRACK_LIST/TRACK/NAME". Ignores unknown elements, and
 * ends silently where the text is not XML. `text` may hold anything. Both strings are valid during
 * the call only; the value may be empty. */
void ixml_scan(const char *text, void (*fn)(void *arg, const char *key, const char *value),
               void *arg);

#endif
