/* tools/export/html/html_format.h - a folder of pages to read, hear and search an archive by, from
 * disk, without a server.
 *
 *     index.html  list.html          the archive at a glance; the list without scripts
 *     recordings/ID.html  ID.js      a page for each recording; its texts for the search
 *     media/ID.svg  ID.opus  ID.wav  waveforms; sound, where it is not played from where it lies
 *     search/list.js  pieces.js  HASH.js   the list, and the index of words (word_index.h)
 *     pages/                         style and scripts; which catalog's the folder is
 *
 * ID is 16 hexadecimal digits of the recording's fingerprint: the same wherever it lies and in
 * whichever catalog, so a link holds, and nothing from outside is in a name. A file that is there
 * with the same bytes is not written again. Pages of recordings that are not in this export are
 * updated, too: they keep their sound and are in the index. Files that belong to no transcript of
 * the catalog any more are removed. So a folder belongs to one catalog, and others are refused. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_HTML_FORMAT_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_HTML_FORMAT_H

#include "tools/export/format.h"

extern const struct format_folder html_folder;
extern const char *const html_media[]; /* enum format_media in words: of --media, and in pages */
#define HTML_MEDIA 4                   /* of them */

#endif
