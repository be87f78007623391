/* Silero's model of voice activity: one file of its project's source tree, at one of its releases,
 * of which the hash is known here. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/hub_http.h"
#include "tools/hub/packages/own_models.h"
#include "workers/models/silero/silero.h"

#define SILERO_PAGE "https://github.com/snakers4/silero-vad"
#define SILERO_BYTES 1239748
#define SILERO_SHA256 "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"

static int fetch_silero(const struct hub_settings *s, const struct hub_watch *watch,
                        const char *folder, struct hub_pulled *ret, struct err *err)
{
    char path[PATH_MAX + 64], url[1200];
    struct hub_file f = {.name = SILERO_FILE,
                         .url = url,
                         .path = path,
                         .digest = {SILERO_SHA256},
                         .size_bytes = SILERO_BYTES};
    const struct hub_server server = {
        .base = s->silero, .variable = "NIGHTSHIFT_SILERO_URL", .page = SILERO_PAGE};
    struct hub_http *http = NULL;
    uint64_t got = 0;
    int rc;

    snprintf(path, sizeof(path), "%s/" SILERO_FILE, folder);
    snprintf(url, sizeof(url), "%s/" SILERO_FILE, s->silero);
    rc = hub_room(folder, hub_file_missing(&f), err);
    if (rc == 0)
        rc = hub_http_open(s, watch, &server, &http, err);
    if (rc == 0)
        rc = hub_file_fetch(http, watch, &f, &got, err);
    hub_http_close(http);
    if (rc != 0)
        return rc;
    *ret = (struct hub_pulled){.path = strdup(path), .files = 1, .fetched_bytes = got};
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull_silero(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err)
{
    return hub_pull_own(SILERO_NAME, fetch_silero, s, watch, ret, err);
}
