#include "tools/export/html/html_format.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli/cli.h"
#include "tools/export/escape.h"
#include "tools/export/html/assets.h"
#include "tools/export/html/listen.h"
#include "tools/export/html/overview.h"
#include "tools/export/html/page.h"
#include "tools/export/html/word_index.h"
#include "tools/export/outdir.h"
#include "tools/export/read_document.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"

#define PAGE_MAX (1u << 30) /* bytes */
#define ID_LEN 17           /* with its NUL */
#define FILE_LEN 64         /* of a name below the folder */

struct html {
    struct store *store;
    struct outdir *out;
    const struct format_options *options;
    char *output; /* owned; absolute */
    struct overview overview;
    struct word_index *words;
    uint32_t pages;
    struct keys kept;   /* IDs of pages that were made, and of pieces: others' files go, */
    struct keys failed; /*   unless there are recordings (IDs) whose page could not be made */
    struct buf page, texts;
    bool judged;      /* may media be decoded on this machine? asked once */
    struct err judge; /* code 0: yes */
    struct listen_archive archive;
};

const char *const html_media[HTML_MEDIA] = {"link", "copy", "opus", "none"};

static void html_close(void *state)
{
    struct html *h = state;

    if (!h)
        return;
    listen_archive_close(&h->archive);
    decoder_drop_server();
    overview_free(&h->overview);
    word_index_free(h->words);
    keys_free(&h->kept);
    keys_free(&h->failed);
    buf_free(&h->page);
    buf_free(&h->texts);
    free(h->output);
    free(h);
}

/* Pages of somebody else's are not written over, and those of another catalog would all be removed:
 * the first export into a folder notes whose it is, in front of everything else. */
static int check_folder(struct html *h, struct err *err)
{
    static const char name[] = "pages/catalog.txt";
    char mine[STORE_IDENTITY_LEN], there[STORE_IDENTITY_LEN + 1];
    ssize_t n = outdir_read(h->out, name, there, sizeof(there));
    int rc = store_identity(h->store, mine, err);

    if (rc != 0)
        return rc;
    mine[STORE_IDENTITY_LEN - 1] = '\n'; /* a line of text */
    if (n < 0 &&
        (outdir_has(h->out, "index.html", NULL, 0) || outdir_has(h->out, "list.html", NULL, 0)))
        return err_set(err, ERR_DENIED, "'%s' has pages that no export wrote", h->output);
    if (n < 0)
        return outdir_write(h->out, name, mine, sizeof(mine), err);
    if (n != sizeof(mine) || memcmp(mine, there, sizeof(mine)) != 0)
        return err_set(err, ERR_DENIED, "'%s' has the pages of another catalog", h->output);
    return 0;
}

static int html_open(struct store *st, struct outdir *out, const struct format_options *o,
                     void **ret, struct err *err)
{
    struct html *h = calloc(1, sizeof(*h));
    int rc = h ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    if (rc != 0)
        return rc;
    *h = (struct html){.store = st, .out = out, .options = o};
    h->page.max = h->texts.max = PAGE_MAX;
    rc = cli_absolute(o->output, &h->output, err);
    if (rc == 0)
        rc = check_folder(h, err);
    if (rc == 0)
        rc = word_index_new(&h->words, err);
    if (rc != 0)
        html_close(h);
    else
        *ret = h;
    return rc;
}

/* ------------------------------------------------------------------------------------ files */

/* "recordings/ID.html" */
static char *file_name(const char *folder, const char *id, const char *ending, char ret[FILE_LEN])
{
    snprintf(ret, FILE_LEN, "%s/%s.%s", folder, id, ending);
    return ret;
}

static int write_changed(struct html *h, const char *name, const struct buf *content,
                         struct err *err)
{
    if (content->failed)
        return err_set(err, ERR_LIMIT, "'%s' is too large", name);
    if (outdir_has(h->out, name, content->data ? (const void *)content->data : "", content->len))
        return 0;
    return outdir_write(h->out, name, content->data, content->len, err);
}

static bool is_kept(void *arg, const char *name)
{
    const struct html *h = arg;
    const size_t n = strspn(name, "0123456789abcdef");

    /* A file whose name is not one of ours is somebody else's. */
    return n != ID_LEN - 1 || name[n] != '.' || keys_has(&h->kept, name, n);
}

/* ------------------------------------------------------------------------------------ sound */

/* From recordings/ to a file of the disk, both absolute. */
static void put_relative(const char *output, const void *path_raw, size_t n, struct buf *out)
{
    const char *path = path_raw;
    size_t common = 0;

    /* Up to a slash that both have there. */
    for (size_t i = 0; i < n && (output[i] == path[i] || (output[i] == 0 && path[i] == '/')); i++) {
        if (path[i] == '/')
            common = i;
        if (output[i] == 0)
            break;
    }
    buf_printf(out, "..");
    for (const char *s = output + common; *s; s++)
        if (*s == '/' && s[1])
            buf_printf(out, "/..");
    html_url_path(out, path + common, n - common);
}

/* The ending of a file's name, for a copy of it: letters and digits alone. */
static const char *ending_of(const char *path, char ret[8])
{
    const char *dot = strrchr(path, '.');
    size_t n = 0;

    for (; dot && dot[n + 1] && n < 7 && isalnum((unsigned char)dot[n + 1]); n++)
        ret[n] = (char)tolower((unsigned char)dot[n + 1]);
    ret[n] = 0;
    return n > 0 && !dot[n + 1] ? ret : "bin";
}

static int append_to_outdir(void *out, const void *data, size_t n, struct err *err)
{
    return outdir_append(out, data, n, err);
}

/* Completes the file that was begun, or drops it after an error. */
static int end_file(struct html *h, int rc, struct err *err)
{
    if (rc == 0)
        return outdir_end(h->out, err);
    outdir_drop(h->out);
    return rc;
}

static int copy_original(struct html *h, const struct read_origin *origin, const char *name,
                         struct err *err)
{
    int rc = outdir_begin(h->out, name, err);

    return rc == 0 ? end_file(h, listen_copy(origin, append_to_outdir, h->out, err), err) : rc;
}

static int may_decode(struct html *h, struct err *err)
{
    char warning[SANDBOX_WORDS];

    if (!h->judged) {
        decoder_share_server();
        (void)sandbox_demand(h->options->unsandboxed, warning, &h->judge);
    }
    h->judged = true;
    *err = h->judge;
    return h->judge.code;
}

/* Makes the waveform and the Opus file that are missing, with one decoding for both. */
static int write_sound(struct html *h, const struct read_origin *origin, const char *wave,
                       const char *opus, struct err *err)
{
    int rc = wave || opus ? may_decode(h, err) : 0;

    buf_clear(&h->page);
    if (rc == 0 && opus)
        rc = outdir_begin(h->out, opus, err);
    if (rc == 0 && (wave || opus)) {
        rc = listen_to(&h->archive, origin, wave ? &h->page : NULL, opus ? append_to_outdir : NULL,
                       h->out, err);
        rc = opus ? end_file(h, rc, err) : rc;
    }
    if (rc == 0 && wave)
        rc = outdir_write(h->out, wave, h->page.data, h->page.len, err);
    return rc;
}

struct sounding {
    enum format_media media;
    bool as_it_is; /* nothing is made: what is not there is not played */
    struct buf source, second;
    const char *silent;
    bool waveform, film;
};

static const char unreadable[] = "The recording could not be read when this page was made.";

static bool ends_all(const struct err *err)
{
    return err->code == ERR_FULL || err->code == ERR_NOMEM || err->code == ERR_CANCELLED;
}

/* A page without its sound is still written; the page and a note say why. If the page plays the
 * original file, only its waveform is missing. */
static int no_sound(struct sounding *s, const struct read_recording *r, bool played,
                    const struct err *why, struct err *err)
{
    if (ends_all(why)) {
        *err = *why;
        return err->code;
    }
    cli_note("%s%s%s: its page has no %s: %s", r->path, r->member[0] ? "//" : "", r->member,
             played ? "waveform" : "sound or waveform", why->msg);
    if (played)
        return 0;
    s->silent = unreadable;
    buf_clear(&s->source);
    return 0;
}

/* Sets the source that the page plays, and makes the files that are missing for it. */
static int make_sound(struct html *h, const struct read_recording *r,
                      const struct read_origin *origin, const char *id, struct sounding *s,
                      struct err *err)
{
    const enum format_media media = s->media;
    const bool played = r->member[0] == 0 && listen_is_played(r->container, r->codec, r->path);
    char wave[FILE_LEN], file[FILE_LEN], ending[8];
    const bool opus = media == FORMAT_MEDIA_OPUS || !played;
    const bool link = media == FORMAT_MEDIA_LINK && played;
    bool want_wave, want_file;
    struct err why = {0};
    int rc = 0;

    file_name("media", id, "svg", wave);
    file_name("media", id, opus ? "opus" : ending_of(r->path, ending), file);
    s->waveform = outdir_has(h->out, wave, NULL, 0);
    want_wave = h->options->waveform && !s->waveform;
    want_file = media != FORMAT_MEDIA_NONE && !link && !outdir_has(h->out, file, NULL, 0);
    if (media == FORMAT_MEDIA_NONE)
        s->silent = "This page was made without sound.";
    else if (link) {
        put_relative(h->output, origin->path_raw, origin->path_raw_len, &s->source);
        buf_printf(&s->second, "file://");
        html_url_path(&s->second, origin->path_raw, origin->path_raw_len);
    } else
        buf_printf(&s->source, "../%s", file);
    s->film = played && !opus && listen_is_film(r->path);
    if ((s->as_it_is || !origin->present) && (want_wave || want_file)) {
        s->silent = unreadable;
        if (want_file)
            buf_clear(&s->source);
        return 0;
    }
    /* ^C waits for a group's end, which must not be that of hours of decoding. */
    if (want_wave && outdir_flush(h->out, err) != 0)
        return err->code;
    if (want_file && !opus)
        rc = copy_original(h, origin, file, &why);
    want_file = want_file && (opus || rc != 0); /* is still to be made */
    if (rc == 0)
        rc = write_sound(h, origin, want_wave ? wave : NULL, want_file ? file : NULL, &why);
    s->waveform |= rc == 0 && want_wave;
    return rc == 0 ? 0 : no_sound(s, r, !want_file, &why, err);
}

/* ------------------------------------------------------------------------------- recordings */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* Its path, and in an archive its member. */
static int where_of(const struct read_recording *r, struct buf *ret, struct err *err)
{
    buf_printf(ret, "%s%s%s", r->path, r->member[0] ? "//" : "", r->member);
    return buf_cstr(ret) ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int index_words(struct html *h, const struct document *d, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->segment_count; i++)
        rc = word_index_add(h->words, h->pages, d->segments[i].text, err);
    return rc;
}

/* Both are made before either is written: a page and its texts say the same. */
static int write_page(struct html *h, const struct page *p, struct err *err)
{
    char name[FILE_LEN];
    int rc;

    buf_clear(&h->page);
    buf_clear(&h->texts);
    rc = page_put(p, &h->page, err);
    page_put_texts(p, &h->texts);
    if (rc == 0)
        rc = write_changed(h, file_name("recordings", p->id, "js", name), &h->texts, err);
    if (rc == 0)
        rc = write_changed(h, file_name("recordings", p->id, "html", name), &h->page, err);
    return rc == 0 ? index_words(h, p->document, err) : rc;
}

/* s: what is to be played; its texts are freed here. */
static int make_page(struct html *h, const struct read_recording *r,
                     const struct read_origin *origin, const struct document *d, const char *id,
                     struct sounding s, struct err *err)
{
    struct buf where = BUF_INIT;
    int rc = make_sound(h, r, origin, id, &s, err);

    if (rc == 0)
        rc = where_of(r, &where, err);
    if (rc == 0 && (!buf_cstr(&s.source) || !buf_cstr(&s.second)))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        const struct page p = {.document = d,
                               .id = id,
                               .name = last_part(r->member[0] ? r->member : r->path),
                               .where = buf_cstr(&where),
                               .source = buf_cstr(&s.source),
                               .second = buf_cstr(&s.second),
                               .silent = s.silent,
                               .media = html_media[s.media],
                               .film = s.film,
                               .waveform = s.waveform,
                               .unfinished = strcmp(r->transcript, "done") != 0};

        rc = write_page(h, &p, err);
    }
    if (rc == 0)
        rc = overview_add(&h->overview, r, d, id, buf_cstr(&where), err);
    h->pages += rc == 0;
    buf_free(&where);
    buf_free(&s.source);
    buf_free(&s.second);
    return rc;
}

struct having {
    struct html *h;
    const struct read_recording *r;
    char id[ID_LEN];
    struct err *err;
};

static void id_of(const struct read_origin *origin, char ret[ID_LEN])
{
    for (int i = 0; i < 8; i++)
        snprintf(ret + 2 * i, 3, "%02x", origin->fingerprint[i]);
}

static bool has_text(const struct read_recording *r)
{
    return strcmp(r->transcript, "done") == 0 || strcmp(r->transcript, "started") == 0;
}

static bool is_listed(const struct keys *k, const char *id) { return keys_has(k, id, ID_LEN - 1); }

static int make_one(struct having *x, const struct read_origin *origin, struct sounding sounding)
{
    struct html *h = x->h;
    struct document_memory *memory = NULL;
    struct document d;
    size_t key;
    int rc = read_document(h->store, x->r,
                           FORMAT_TEXT | FORMAT_WORDS | FORMAT_TURNS | FORMAT_SOUNDS | FORMAT_TAGS,
                           false, &d, &memory, x->err);

    if (rc == 0)
        rc = make_page(h, x->r, origin, &d, x->id, sounding, x->err);
    document_memory_free(memory);
    return rc == 0 ? keys_give(&h->kept, x->id, ID_LEN - 1, &key, x->err) : rc;
}

static int on_origin(void *arg, const struct read_origin *origin)
{
    struct having *x = arg;

    id_of(origin, x->id);
    if (is_listed(&x->h->kept, x->id))
        return err_set(x->err, ERR_INPUT, "another recording has its page's name, '%s.html'",
                       x->id);
    return make_one(x, origin, (struct sounding){.media = x->h->options->media, .silent = ""});
}

static int list_alone(struct html *h, const struct read_recording *r, struct err *err)
{
    struct buf where = BUF_INIT;
    int rc = where_of(r, &where, err);

    if (rc == 0)
        rc = overview_add(&h->overview, r, NULL, "", buf_cstr(&where), err);
    buf_free(&where);
    return rc;
}

/* Its page, if there is one, is an old one: the index does not name it. */
static void leave_out(const struct having *x)
{
    struct err ignored = {0}; /* out of memory: the export ends of that itself */
    size_t key;

    (void)list_alone(x->h, x->r, &ignored);
    if (x->id[0])
        (void)keys_give(&x->h->failed, x->id, ID_LEN - 1, &key, &ignored);
}

static int html_recording(void *state, const struct read_recording *r, const char *name,
                          struct err *err)
{
    struct html *h = state;
    struct having x = {.h = h, .r = r, .err = err};
    int rc;

    (void)name; /* IDs: they stay when a recording moves */
    if (!has_text(r))
        return list_alone(h, r, err);
    rc = read_origin(h->store, r->media_id, on_origin, &x, err);
    if (rc != 0)
        leave_out(&x);
    return rc;
}

/* ---------------------------------------------------------------------------- earlier exports */

/* The kind of sound that an existing page plays. */
static enum format_media media_of(struct html *h, const char *page)
{
    char head[8192], wanted[32]; /* it stands behind the title, whose quotes are escaped */
    ssize_t n = outdir_read(h->out, page, head, sizeof(head));

    for (int m = 0; n > 0 && m < HTML_MEDIA; m++) {
        snprintf(wanted, sizeof(wanted), "<body data-media=\"%s\"", html_media[m]);
        if (memmem(head, (size_t)n, wanted, strlen(wanted)))
            return (enum format_media)m;
    }
    return FORMAT_MEDIA_NONE;
}

/* An archive is exported in pieces, too: what has its page from another time keeps it, and the
 * index and the search have it. It says what the catalog says now, as those do. */
static int on_earlier_origin(void *arg, const struct read_origin *origin)
{
    struct having *x = arg;
    char page[FILE_LEN];

    id_of(origin, x->id);
    file_name("recordings", x->id, "html", page);
    if (is_listed(&x->h->kept, x->id) || is_listed(&x->h->failed, x->id) ||
        !outdir_has(x->h->out, page, NULL, 0))
        return 0;
    return make_one(
        x, origin,
        (struct sounding){.media = media_of(x->h, page), .as_it_is = true, .silent = ""});
}

static int on_earlier(void *arg, const struct read_recording *r)
{
    struct having *all = arg, x = {.h = all->h, .r = r, .err = all->err};
    int rc = has_text(r) ? read_origin(x.h->store, r->media_id, on_earlier_origin, &x, x.err) : 0;

    if (rc != ERR_INPUT && rc != ERR_LIMIT)
        return rc;
    cli_note("%s%s%s: its page is the old one: %s", r->path, r->member[0] ? "//" : "", r->member,
             x.err->msg);
    leave_out(&x);
    *x.err = (struct err){0};
    return 0;
}

static int add_earlier(struct html *h, struct err *err)
{
    struct having x = {.h = h, .err = err};

    return read_recordings(h->store, &(struct read_filter){0}, on_earlier, &x, err);
}

/* ----------------------------------------------------------------------------------- finish */

struct finishing {
    struct html *h;
    struct err *err;
};

static int on_piece(void *arg, const char *id, const struct buf *script)
{
    struct finishing *f = arg;
    char name[FILE_LEN];
    size_t key;
    int rc = keys_give(&f->h->kept, id, strlen(id), &key, f->err);

    return rc == 0 ? write_changed(f->h, file_name("search", id, "js", name), script, f->err) : rc;
}

static int put_file(struct html *h, const char *name,
                    void (*put)(const struct overview *o, struct buf *out), struct err *err)
{
    buf_clear(&h->page);
    put(&h->overview, &h->page);
    return write_changed(h, name, &h->page, err);
}

static int write_search(struct html *h, struct err *err)
{
    struct finishing f = {h, err};
    int rc;

    buf_clear(&h->page);
    rc = word_index_pieces(h->words, on_piece, &f, &h->page, err);
    return rc == 0 ? write_changed(h, "search/pieces.js", &h->page, err) : rc;
}

static int html_finish(void *state, struct err *err)
{
    static const char *const folders[] = {"recordings", "media", "search"};
    struct html *h = state;
    int rc = add_earlier(h, err);

    if (rc == 0)
        rc = put_file(h, "index.html", overview_put_index, err);
    if (rc == 0)
        rc = put_file(h, "list.html", overview_put_plain, err);
    if (rc == 0)
        rc = put_file(h, "search/list.js", overview_put_list, err);
    if (rc == 0)
        rc = write_search(h, err);
    for (size_t i = 0; rc == 0 && i < assets_count; i++) {
        const struct asset *a = &assets[i];

        if (!outdir_has(h->out, a->name, a->data, a->len))
            rc = outdir_write(h->out, a->name, a->data, a->len, err);
    }
    /* Pages that name what is removed are there until the new ones have their names. */
    if (rc == 0)
        rc = outdir_flush(h->out, err);
    for (size_t i = 0; rc == 0 && h->failed.count == 0 && i < sizeof(folders) / sizeof(folders[0]);
         i++)
        rc = outdir_prune(h->out, folders[i], is_kept, h, err);
    return rc;
}

const struct format_folder html_folder = {"index.html", html_open, html_recording, html_finish,
                                          html_close};
