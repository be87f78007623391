/* tools/export/read_document.h - a recording of the catalog as a document. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_READ_DOCUMENT_H
#define NIGHTSHIFT_TOOLS_EXPORT_READ_DOCUMENT_H

#include "store/read/read.h"
#include "tools/export/document.h"

/* needs: FORMAT_TEXT ... (format.h), what of it is read; `dropped`: instead of its transcript, what
 * was not believed, and nothing beside it. The document borrows its recording's fields from `row`,
 * and the rest from *memory, which is the caller's to free. On error there is none. */
struct document_memory;
int read_document(struct store *st, const struct read_recording *row, unsigned needs, bool dropped,
                  struct document *ret, struct document_memory **memory, struct err *err);
/* The demo's models that made what people read of the recording: the sum of enum demo_model. */
int read_document_demo(struct store *st, int64_t media_id, unsigned *ret, struct err *err);
void document_memory_free(struct document_memory *m); /* NULL is fine */

#endif
