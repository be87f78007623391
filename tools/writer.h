/* tools/writer.h - the one way in which commands change the catalog.
 *
 * Holds the catalog's lock and applies requests itself, or, while a run holds the lock, hands the
 * same requests to that run. One thread. */
#ifndef NIGHTSHIFT_TOOLS_WRITER_H
#define NIGHTSHIFT_TOOLS_WRITER_H

#include <stdbool.h>

#include "base/err.h"
#include "store/requests/request.h"

struct writer;
/* purpose: the command's name. When another short-lived command holds the catalog, waits for it up
 * to wait_ms and says so on standard error unless quiet; then ERR_LOCKED with its name. */
int writer_open(const char *catalog, const char *purpose, int wait_ms, bool quiet,
                struct writer **ret, struct err *err);
void writer_close(struct writer *w); /* NULL is fine */

bool writer_through_run(const struct writer *w);
/* The catalog, for reading. The writer owns it and may replace it in writer_request. */
struct store *writer_store(struct writer *w);
/* Works like request_apply. If the run that it talks to has ended, it goes on without the run: a
 * request may then be applied twice, which changes only the counts of the reply. */
int writer_request(struct writer *w, const struct request *rq, struct request_reply *ret,
                   struct err *err);

#endif
