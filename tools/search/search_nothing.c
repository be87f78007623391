#include "tools/search/search_nothing.h"

#include <stdlib.h>

#include "store/search/near_words.h"
#include "tools/cli/text.h"
#include "workers/stages/stage_kind.h"

/* What of the archive is not known, as sentences that each begin with a blank. */
struct unknown {
    bool texts, sounds; /* something is not */
    struct buf said;
};

static void put_count(struct buf *b, uint64_t n, const char *one, const char *many)
{
    char number[TEXT_LEN];

    buf_printf(b, " %s %s", text_count(n, number), text_plural(n, one, many));
}

static void put_unknown(struct buf *b, const struct coverage *c, const char *what)
{
    if (c->left > 0) {
        put_count(b, c->left, "recording is", "recordings are");
        buf_printf(b, " still to be %s (nightshift run).", what);
    }
    if (c->failed > 0) {
        put_count(b, c->failed, "recording", "recordings");
        buf_printf(b, " failed to be %s (nightshift status --failures).", what);
    }
    if (c->cancelled > 0) {
        put_count(b, c->cancelled, "recording was", "recordings were");
        buf_printf(b, " cancelled before %s %s (nightshift retry).",
                   text_plural(c->cancelled, "it was", "they were"), what);
    }
    if (c->never > 0) {
        put_count(b, c->never, "recording was", "recordings were");
        buf_printf(b, " never asked to be %s (nightshift enqueue).", what);
    }
    if (c->forgotten > 0) {
        put_count(b, c->forgotten, "recording is", "recordings are");
        buf_printf(b,
                   " not %s where that was asked for: `nightshift enqueue` of the folder has it "
                   "done.",
                   what);
    }
}

static bool is_whole(const struct coverage *c)
{
    return c->left + c->failed + c->cancelled + c->never + c->forgotten == 0;
}

/* By class, or where nobody listened for classes by vectors. */
static int cover_sounds(struct store *st, const char *path, struct coverage *ret, struct err *err)
{
    struct coverage vectors;
    int rc = coverage_read(st, stage_sounds.name, path, ret, err);

    if (rc != 0 || ret->done + ret->left + ret->failed + ret->cancelled > 0)
        return rc;
    rc = coverage_read(st, stage_embed_audio.name, path, &vectors, err);
    if (rc == 0 && vectors.done + vectors.left + vectors.failed + vectors.cancelled > 0)
        *ret = vectors;
    return rc;
}

static int look(struct store *st, const struct search_wish *wish, struct unknown *u,
                struct err *err)
{
    struct coverage c = {0};
    int rc = 0;

    if (wish->text) {
        rc = coverage_read(st, stage_transcribe.name, wish->path, &c, err);
        if (rc == 0)
            put_unknown(&u->said, &c, "transcribed");
        u->texts = !is_whole(&c);
    }
    if (rc == 0 && wish->sound) {
        rc = cover_sounds(st, wish->path, &c, err);
        if (rc == 0)
            put_unknown(&u->said, &c, "listened to for sounds");
        u->sounds = !is_whole(&c);
    }
    return rc;
}

/* Within what was asked about. */
static void put_nobody(struct buf *b, const struct search_wish *w)
{
    char length[TEXT_LEN];

    if (w->speaker)
        buf_printf(b, "'%s' is not known to have said that", w->speaker);
    else
        buf_printf(b, "Nobody said that");
    if (w->language)
        buf_printf(b, " in the language '%s'", w->language);
    if (w->path)
        buf_printf(b, " in '%s'", w->path);
    if (w->within_ms > 0)
        buf_printf(b, " within %s of each other", text_length(w->within_ms, length));
    else if (!w->one_word)
        buf_printf(b, " in one segment");
    buf_printf(b, "%s.", w->sound ? " near such a sound" : "");
}

static void put_words(struct buf *b, const struct search_wish *w, const struct unknown *u)
{
    if (u->texts || u->sounds)
        buf_printf(b, "Nothing was found in what is transcribed%s so far.",
                   w->sound ? " and listened to" : "");
    else
        put_nobody(b, w);
    if (w->sound)
        return;
    buf_printf(b, " Fewer words, or the beginning of one as in 'mark*', find more%s.",
               w->terms > 1 && w->within_ms == 0
                   ? "; --within 60s finds words that are not in one segment"
                   : "");
}

static void put_sounds(struct buf *b, const struct search_wish *w, const struct unknown *u)
{
    buf_printf(b, "Nothing%s sounds like ", u->sounds ? " that was listened to" : "");
    if (w->text)
        buf_printf(b, "'%s'%s", w->sound, u->sounds ? "" : ", so nobody speaks near it");
    else
        buf_printf(b, "that%s", w->speaker ? " while that speaker says something" : "");
    if (w->path)
        buf_printf(b, " in '%s'", w->path);
    buf_printf(b, ".");
}

/* A word that nobody said may be one that somebody did, but for a slip. */
static int put_near(struct store *st, const struct search_wish *w, struct buf *b, struct err *err)
{
    struct near_words near;
    char n[TEXT_LEN];
    int rc = near_words(st, w->text, &near, err);

    for (size_t i = 0; rc == 0 && i < near.count; i++) {
        if (i == 0 && w->one_word)
            buf_printf(b, " Perhaps: ");
        else if (i == 0)
            buf_printf(b, " Nobody said '%s'; perhaps: ", near.typed);
        buf_printf(b, "%s%s (%s)%s", i > 0 ? ", " : "", near.list[i].word,
                   text_count((uint64_t)near.list[i].segments, n), i + 1 == near.count ? "." : "");
    }
    return rc;
}

int search_nothing(struct store *st, const struct search_wish *wish, bool heard, struct buf *ret,
                   struct err *err)
{
    struct unknown u = {.said = BUF_INIT};
    int rc = look(st, wish, &u, err);

    if (rc == 0) {
        if (!wish->text || (wish->sound && !heard))
            put_sounds(ret, wish, &u);
        else if (wish->meaning_must)
            buf_printf(ret, "Nothing that was said is there to be compared.");
        else
            put_words(ret, wish, &u);
        if (wish->text && !wish->meaning_must)
            rc = put_near(st, wish, ret, err);
        buf_put(ret, u.said.data, u.said.len);
    }
    buf_free(&u.said);
    return rc;
}
