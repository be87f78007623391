#include "tools/hub/hub_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "tools/hub/hub_answer.h"
#include "tools/cli/text.h"
#include "tools/hub/libcurl.h"

#define HOPS_MAX 8
#define CONNECT_S 30
#define SLOWEST_BYTES_PER_S 100
#define SHORT_ANSWER_S 300        /* for what is no file, however lively it trickles */
#define PROGRESS_BYTES (1u << 20) /* so much more, and the tries are counted anew */
#define PAUSE_MAX_MS 60000

struct hub_http {
    const struct hub_settings *settings;
    const struct hub_watch *watch;
    struct hub_server server;
    CURL *curl;
    CURLU *origin;
    struct curl_slist *auth; /* NULL: no token */
    bool answered;           /* somebody has, in this pull */
    char why[CURL_ERROR_SIZE];
};

/* ---- opening */

int hub_http_open(const struct hub_settings *s, const struct hub_watch *watch,
                  const struct hub_server *server, struct hub_http **ret, struct err *err)
{
    struct buf line = BUF_INIT;
    struct hub_http *h;
    int rc = libcurl_open(err);

    if (rc != 0)
        return rc;
    h = calloc(1, sizeof(*h));
    if (!h)
        return err_set(err, ERR_NOMEM, "out of memory");
    *h = (struct hub_http){.settings = s, .watch = watch, .server = *server};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == 0) {
        h->curl = curl_easy_init();
        h->origin = curl_url();
    }
    if (server->token) {
        buf_printf(&line, "Authorization: Bearer %s", server->token);
        if (buf_cstr(&line))
            h->auth = curl_slist_append(NULL, buf_cstr(&line));
        if (line.data)
            explicit_bzero(line.data, line.len);
        buf_free(&line);
    }
    if (!h->curl || !h->origin || (server->token && !h->auth)) {
        hub_http_close(h);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (curl_url_set(h->origin, CURLUPART_URL, server->base, 0) != CURLUE_OK) {
        hub_http_close(h);
        return err_set(err, ERR_USAGE, "'%.200s' is not an address. Try another %s", server->base,
                       server->variable);
    }
    *ret = h;
    return 0;
}

void hub_http_close(struct hub_http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    curl_url_cleanup(h->origin);
    curl_slist_free_all(h->auth);
    free(h);
}

const struct hub_server *hub_http_server(const struct hub_http *h) { return &h->server; }

/* ---- one request */

static bool stopped(const struct hub_http *h) { return h->watch->stop && *h->watch->stop; }

static bool same_part(CURLU *a, CURLU *b, CURLUPart part)
{
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;

    curl_free(x);
    curl_free(y);
    return same;
}

static bool is_own(const struct hub_http *h, const char *url)
{
    CURLU *u = curl_url();
    bool own = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
               same_part(h->origin, u, CURLUPART_SCHEME) &&
               same_part(h->origin, u, CURLUPART_HOST) && same_part(h->origin, u, CURLUPART_PORT);

    curl_url_cleanup(u);
    return own;
}

struct exchange {
    struct hub_http *h;
    struct hub_answer answer;
    bool head;
};

static void tell_step(void *arg)
{
    const struct exchange *x = arg;
    const struct hub_part *p = x->answer.part;

    x->h->watch->on_file(x->h->watch->arg, HUB_STEP, p->name, p->have_bytes, p->size_bytes);
}

/* About once a second while nothing arrives: this is where a signal ends a request. */
static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    const struct exchange *x = arg;

    (void)total;
    (void)now;
    (void)up_total;
    (void)up;
    if (x->answer.part)
        tell_step(arg);
    return stopped(x->h);
}

static void set_limits(struct hub_http *h, bool whole_file)
{
    const long patience_s = (long)h->settings->patience_s;

    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR,
                     strncmp(h->server.base, "http://", 7) == 0 ? "http,https" : "https");
    curl_easy_setopt(h->curl, CURLOPT_FOLLOWLOCATION, 0L); /* exchange() does, with its own rules */
    curl_easy_setopt(h->curl, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's */
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT,
                     patience_s < CONNECT_S ? patience_s : CONNECT_S);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST_BYTES_PER_S);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_TIME, patience_s);
    if (h->settings->authorities)
        curl_easy_setopt(h->curl, CURLOPT_CAINFO, h->settings->authorities);
    if (!whole_file)
        curl_easy_setopt(h->curl, CURLOPT_TIMEOUT,
                         patience_s < SHORT_ANSWER_S ? 10 * patience_s : patience_s);
}

static CURLcode one_request(struct exchange *x, const char *url)
{
    struct hub_http *h = x->h;
    struct hub_part *part = x->answer.part;
    char range[48];

    hub_answer_begin(&x->answer, is_own(h, url));
    curl_easy_reset(h->curl);
    set_limits(h, part != NULL);
    h->why[0] = 0;
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(h->curl, CURLOPT_USERAGENT, "nightshift");
    curl_easy_setopt(h->curl, CURLOPT_NOBODY, x->head ? 1L : 0L);
    if (x->answer.own)
        curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->auth);
    if (part && part->at > 0)
        snprintf(range, sizeof(range), "%llu-%llu",
                 (unsigned long long)(part->at + part->have_bytes),
                 (unsigned long long)(part->at + part->size_bytes - 1));
    else if (part)
        snprintf(range, sizeof(range), "%llu-", (unsigned long long)part->have_bytes);
    if (part && part->at + part->have_bytes > 0)
        curl_easy_setopt(h->curl, CURLOPT_RANGE, range);
    curl_easy_setopt(h->curl, CURLOPT_HEADERFUNCTION, hub_answer_header);
    curl_easy_setopt(h->curl, CURLOPT_HEADERDATA, &x->answer);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, hub_answer_body);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, &x->answer);
    curl_easy_setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFODATA, x);
    return curl_easy_perform(h->curl);
}

/* ---- what became of it */

enum outcome { DONE, REDIRECT, AGAIN, FAILED };

/* err is filled for AGAIN (the reason, for people) and FAILED. */
static enum outcome judge_trouble(const struct exchange *x, struct err *err)
{
    switch (x->answer.trouble) {
    case HUB_WRITE_FAILED:
        err_sys(err, x->answer.errnum, "write %s", x->answer.part->name);
        return FAILED;
    case HUB_TOO_LONG:
        err_set(err, ERR_PROTOCOL,
                "the server sends more than it may. Try again later, or another %s",
                x->h->server.variable);
        return FAILED;
    case HUB_BAD_RANGE:
        x->answer.part->have_bytes = 0; /* as if it knew no parts */
        err_set(err, ERR_PROTOCOL, "the server sends another part than was asked for");
        return ftruncate(x->answer.part->fd, 0) == 0 ? AGAIN : FAILED;
    case HUB_NO_PARTS:
        err_set(err, ERR_PROTOCOL, "the server sends whole files alone. Try another %s",
                x->h->server.variable);
        return FAILED;
    default:
        err_set(err, ERR_NOMEM, "out of memory");
        return FAILED;
    }
}

static enum outcome judge_status(const struct exchange *x, struct err *err)
{
    const struct hub_answer *a = &x->answer;

    if (a->status == 408 || a->status == 429 || (a->status >= 500 && a->status <= 599)) {
        err_set(err, ERR_TIMEOUT,
                a->status == 429 ? "the server wants to be asked less often (HTTP %ld)"
                                 : "the server is in trouble (HTTP %ld)",
                a->status);
        return AGAIN;
    }
    if (a->status == 416 && a->part && a->part->have_bytes > 0) {
        a->part->have_bytes = 0;
        err_set(err, ERR_PROTOCOL, "the server has no such part of the file (HTTP 416)");
        return ftruncate(a->part->fd, 0) == 0 ? AGAIN : FAILED;
    }
    hub_answer_refused(a, &x->h->server, err);
    return FAILED;
}

/* No answer, or none that ended. */
static enum outcome judge_connection(const struct exchange *x, CURLcode code, struct err *err)
{
    const struct hub_http *h = x->h;
    const char *why = h->why[0] ? h->why : curl_easy_strerror(code);

    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        err_set(err, ERR_TIMEOUT, "no such host (%.150s)", why);
        return h->answered ? AGAIN : FAILED;
    case CURLE_COULDNT_CONNECT:
        err_set(err, ERR_TIMEOUT, "no connection (%.150s)", why);
        return h->answered ? AGAIN : FAILED;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED:
        err_set(err, ERR_PROTOCOL,
                "the server redirects to what is not an https address. Try another %s",
                h->server.variable);
        return FAILED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        err_set(err, ERR_DENIED,
                "the server's certificate is not one to trust (%.150s). Try `apt-get install "
                "ca-certificates`, and look at the clock",
                why);
        return FAILED;
    case CURLE_OUT_OF_MEMORY:
        err_set(err, ERR_NOMEM, "out of memory");
        return FAILED;
    case CURLE_OPERATION_TIMEDOUT:
        err_set(err, ERR_TIMEOUT, "the server is too slow (nothing for %u s)",
                h->settings->patience_s);
        return AGAIN;
    default:
        err_set(err, ERR_TIMEOUT, "the connection broke (%.150s)", why);
        return AGAIN;
    }
}

static enum outcome classify_answer(struct exchange *x, CURLcode code, struct err *err)
{
    const struct hub_answer *a = &x->answer;

    if (stopped(x->h)) {
        err_set(err, ERR_CANCELLED, "interrupted");
        return FAILED;
    }
    if (a->status != 0)
        x->h->answered = true;
    if (a->trouble != HUB_FINE)
        return judge_trouble(x, err);
    if (a->status >= 400)
        return judge_status(x, err);
    if (a->status >= 300)
        return REDIRECT;
    if (code != CURLE_OK)
        return judge_connection(x, code, err);
    if (a->part && a->part->have_bytes < a->part->size_bytes) {
        err_set(err, ERR_TIMEOUT, "the server sends less than the whole file");
        return AGAIN;
    }
    if (a->status == 200 || (a->status == 206 && a->part))
        return DONE;
    err_set(err, ERR_PROTOCOL,
            "the server gives an answer that fits no question (HTTP %ld). Try another %s",
            a->status, x->h->server.variable);
    return FAILED;
}

/* One request and where it leads. */
static enum outcome follow_redirects(struct exchange *x, const char *url, struct err *err)
{
    char *at = strdup(url), *next = NULL;
    enum outcome o = REDIRECT;
    bool own = true;

    for (int hop = 0; at && o == REDIRECT; hop++) {
        o = classify_answer(x, one_request(x, at), err);
        if (o != REDIRECT)
            break;
        next = NULL;
        curl_easy_getinfo(x->h->curl, CURLINFO_REDIRECT_URL, &next);
        own = next && is_own(x->h, next);
        if (x->head && next && !own && x->answer.linked.etag[0]) {
            o = DONE; /* it has said what was asked */
            break;
        }
        if (!next || hop >= HOPS_MAX) {
            err_set(err, ERR_PROTOCOL, "the server redirects %s. Try again later, or another %s",
                    !next ? "to nowhere" : "in circles", x->h->server.variable);
            o = FAILED;
            break;
        }
        free(at);
        at = strdup(next);
    }
    if (!at) {
        err_set(err, ERR_NOMEM, "out of memory");
        o = FAILED;
    }
    free(at);
    return o;
}

/* ---- tries */

/* false: interrupted. */
static bool wait_ms(const struct hub_http *h, uint32_t ms)
{
    for (uint32_t left = ms; left > 0 && !stopped(h);) {
        const uint32_t piece = left < 100 ? left : 100;
        const struct timespec t = {.tv_nsec = (long)piece * 1000000};

        nanosleep(&t, NULL);
        left -= piece;
    }
    return !stopped(h);
}

static int pause_before(struct exchange *x, int tries, struct err *err)
{
    uint64_t ms = (uint64_t)x->h->settings->pause_ms << (tries - 1);
    char line[400], length[TEXT_LEN];
    struct err why = *err;

    if (ms < (uint64_t)x->answer.retry_after_s * 1000)
        ms = (uint64_t)x->answer.retry_after_s * 1000;
    if (ms > PAUSE_MAX_MS)
        ms = PAUSE_MAX_MS;
    snprintf(line, sizeof(line), "%s; trying again in %s", why.msg,
             text_length((int64_t)ms, length));
    x->h->watch->on_note(x->h->watch->arg, line);
    if (!wait_ms(x->h, (uint32_t)ms))
        return err_set(err, ERR_CANCELLED, "interrupted");
    *err = (struct err){0};
    return 0;
}

static int request_with_retries(struct exchange *x, const char *url, struct err *err)
{
    struct hub_part *part = x->answer.part;
    uint64_t mark = part ? part->have_bytes : 0; /* the most there was: a server without
                                                  * parts may bring the same for ever */
    int tries = 0;

    if (hub_offline(x->h->settings, err) != 0)
        return err->code;
    for (;;) {
        enum outcome o;

        if (x->answer.body)
            buf_clear(x->answer.body);
        o = follow_redirects(x, url, err);
        if (o == DONE)
            return 0;
        if (part && part->have_bytes >= mark + PROGRESS_BYTES) {
            mark = part->have_bytes;
            tries = 0;
        }
        if (o == AGAIN && ++tries < HUB_TRIES && pause_before(x, tries, err) == 0)
            continue;
        if (o == AGAIN && err->code != ERR_CANCELLED)
            err_prefix(err, "tried %d times", HUB_TRIES);
        if (err->code == ERR_TIMEOUT && !strstr(err->msg, "Try ")) {
            const size_t n = strlen(err->msg);
            snprintf(err->msg + n, sizeof(err->msg) - n,
                     ". Try the same command again later (it goes on where this one ended), or "
                     "look at the network and %s (%.100s)",
                     x->h->server.variable, x->h->server.base);
        }
        return err->code;
    }
}

int hub_http_get(struct hub_http *h, const char *url, struct buf *ret, struct err *err)
{
    struct exchange x = {.h = h, .answer = {.body = ret}};

    return request_with_retries(&x, url, err);
}

int hub_http_head(struct hub_http *h, const char *url, struct hub_head *ret, struct err *err)
{
    struct exchange x = {.h = h, .head = true, .answer = {.linked = {.size_bytes = -1}}};
    struct hub_head *linked = &x.answer.linked;
    int rc = request_with_retries(&x, url, err);

    if (rc != 0)
        return rc;
    if (linked->etag[0] == 0)
        memcpy(linked->etag, x.answer.etag, sizeof(linked->etag));
    if (linked->size_bytes < 0 && x.answer.status == 200)
        linked->size_bytes = x.answer.content_length;
    *ret = *linked;
    return 0;
}

int hub_http_download(struct hub_http *h, const char *url, struct hub_part *part, struct err *err)
{
    struct exchange x = {.h = h};

    x.answer.part = part;
    x.answer.on_bytes = tell_step;
    x.answer.arg = &x;
    if (part->have_bytes >= part->size_bytes)
        return 0;
    return request_with_retries(&x, url, err);
}
