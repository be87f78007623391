/* tools/hub/hub_http.h - requests to one server, and to where it redirects.
 *
 * Only https is spoken, unless the server's own address begins with http. The token goes to that
 * address's scheme, host and port alone, never along a redirect to another. Temporary errors are
 * retried (no answer, a connection that breaks or stalls, 408, 429, 5xx), at most HUB_TRIES times
 * in a row without progress, with a growing pause between. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_HTTP_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_HTTP_H

#include "base/buf.h"
#include "tools/hub/hub.h"
#include "tools/hub/hub_answer.h"

#define HUB_TRIES 5

struct hub_http;

/* All is borrowed until hub_http_close, the strings too. */
int hub_http_open(const struct hub_settings *s, const struct hub_watch *watch,
                  const struct hub_server *server, struct hub_http **ret, struct err *err);
void hub_http_close(struct hub_http *h); /* NULL is fine */
const struct hub_server *hub_http_server(const struct hub_http *h);

/* The body into ret, which has its bound in `max`. ERR_PROTOCOL when it is longer. */
int hub_http_get(struct hub_http *h, const char *url, struct buf *ret, struct err *err);

/* Asks the server about a file, without fetching it. Redirects away from the server are not
 * followed: it names the file's hash itself. */
int hub_http_head(struct hub_http *h, const char *url, struct hub_head *ret, struct err *err);

/* Brings the file in fd to size_bytes: asks for what is missing from *have_bytes on, and for all of
 * it when the server sends no parts (ERR_PROTOCOL where part->at is not 0). A server that sends
 * more than size_bytes: ERR_PROTOCOL. name is what the watch is told. *have_bytes is kept up to
 * date, also when it fails; *got_bytes grows by what came over the line. */
int hub_http_download(struct hub_http *h, const char *url, struct hub_part *part, struct err *err);

#endif
