#include "tools/search/search_absence.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/read/find.h"
#include "store/search/near_words.h"
#include "tools/cli/text.h"
#include "tools/search/search_result.h"
#include "workers/models/yamnet/yamnet_dir.h"
#include "workers/stages/stage_kind.h"

#define NEAR_NAMES 5   /* classes to propose */
#define NEAR_LETTERS 3 /* that begin like what was typed */

/* All stages of a name. */
struct stages {
    const char *name;
    uint64_t tasks, left, absent;
    bool known;      /* there is one */
    char *model_dir; /* owned; of the newest */
};

static int on_progress(void *arg, const struct read_progress *row)
{
    struct stages *s = arg;

    if (strcmp(row->stage, s->name) != 0)
        return 0;
    s->known = true;
    s->tasks += row->tasks + row->superseded;
    s->left += row->pending + row->waiting + row->paused;
    s->absent += row->absent;
    free(s->model_dir);
    s->model_dir = strdup(row->model_dir);
    return 0;
}

static int read_stage_progress(struct store *st, const char *name, struct stages *ret,
                               struct err *err)
{
    *ret = (struct stages){.name = name};
    return read_progress(st, on_progress, ret, err);
}

static int on_recording(void *arg, const struct read_recording *row)
{
    (void)row;
    *(bool *)arg = true;
    return 1;
}

static int on_speaker(void *arg, const struct find_speaker *row)
{
    (void)row;
    *(bool *)arg = true;
    return 1;
}

static int check_path(struct store *st, const char *path, struct err *err)
{
    const struct read_filter filter = {.path = path, .limit = 1};
    bool any = false;
    int rc = read_recordings(st, &filter, on_recording, &any, err);

    if (rc >= 0 && !any)
        return err_set(err, ERR_MISSING,
                       "the catalog knows no recording at or below '%.200s'. Try "
                       "`nightshift status`",
                       path);
    return rc < 0 ? rc : 0;
}

static int check_speaker(struct store *st, const char *who, struct err *err)
{
    const struct find_people people = {.who = who};
    bool any = false;
    int rc = find_speakers(st, &people, on_speaker, &any, err);

    if (rc >= 0 && !any)
        rc = find_source(st, who, &any, err);
    if (rc >= 0 && !any)
        return err_set(err, ERR_MISSING,
                       "no speaker is called '%.200s'. `nightshift speakers` lists them", who);
    return rc < 0 ? rc : 0;
}

static int check_language(struct store *st, const char *code, struct err *err)
{
    char *have = NULL;
    bool any = false;
    int rc = find_language(st, code, &any, &have, err);

    if (rc == 0 && !any)
        rc = err_set(err, ERR_MISSING,
                     "nothing is transcribed in the language '%.50s' so far%s%.200s", code,
                     *have ? "; there are: " : "", have);
    free(have);
    return rc;
}

static int check_text(struct store *st, struct err *err)
{
    const struct read_filter filter = {.limit = 1};
    struct stages s;
    bool any = false;
    int rc = read_stage_progress(st, stage_transcribe.name, &s, err);

    free(s.model_dir);
    if (rc == 0 && s.tasks == 0) {
        rc = read_recordings(st, &filter, on_recording, &any, err);
        rc = rc < 0 ? rc : 0;
        if (rc == 0 && !any)
            rc = err_set(
                err, ERR_EMPTY,
                "there are no recordings in the catalog yet. `nightshift enqueue PATH` puts "
                "them there");
    }
    if (rc == 0 && s.tasks == 0)
        rc = err_set(err, ERR_EMPTY,
                     s.known ? "what was transcribed was removed (nightshift forget). `nightshift "
                               "enqueue` of the folder has it made again"
                             : "nothing is transcribed. `nightshift enqueue` asks for it");
    return rc;
}

/* ------------------------------------------------------------------------------------- classes */

static bool has_class(const struct yamnet_names *names, const char *sound)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcasestr(names->name[i], sound))
            return true;
    return false;
}

/* ERR_MISSING with classes that begin like it. */
static int no_class(const struct yamnet_names *names, const char *sound, struct err *err)
{
    struct buf near = BUF_INIT;
    const char *list;
    size_t n = strnlen(sound, NEAR_LETTERS);
    int found = 0, rc;

    for (uint32_t i = 0; i < names->count && found < NEAR_NAMES; i++)
        if (strncasecmp(names->name[i], sound, n) == 0)
            buf_printf(&near, "%s%s", found++ > 0 ? ", " : "; near: ", names->name[i]);
    list = buf_cstr(&near);
    rc = err_set(err, ERR_MISSING,
                 "no class of sounds is called '%.100s'%.200s. `nightshift enqueue --embed-audio` "
                 "makes sounds be found by a description",
                 sound, list ? list : "");
    buf_free(&near);
    return rc;
}

/* If the model is gone, its classes are not known, and any class may be asked for. */
static int check_class(const struct stages *sounds, const char *sound, struct err *err)
{
    struct yamnet_names names = {0};
    struct err none = {0};
    int rc = 0;

    if (!sounds->model_dir || yamnet_names_read(sounds->model_dir, &names, &none) != 0)
        return 0;
    if (!has_class(&names, sound))
        rc = no_class(&names, sound, err);
    yamnet_names_free(&names);
    return rc;
}

static int check_sound(struct store *st, const char *sound, struct err *err)
{
    struct stages sounds, vectors = {0};
    int rc = read_stage_progress(st, stage_sounds.name, &sounds, err);

    if (rc == 0)
        rc = read_stage_progress(st, stage_embed_audio.name, &vectors, err);
    if (rc == 0 && sounds.tasks == 0 && vectors.tasks == 0)
        rc = err_set(err, ERR_EMPTY,
                     "no sounds were listened for. `nightshift enqueue --sounds` asks for it");
    else if (rc == 0 && vectors.tasks == 0)
        rc = check_class(&sounds, sound, err);
    free(sounds.model_dir);
    free(vectors.model_dir);
    return rc;
}

int search_check(struct store *st, const struct search_wish *wish, struct err *err)
{
    int rc = wish->path ? check_path(st, wish->path, err) : 0;

    if (rc == 0 && wish->speaker)
        rc = check_speaker(st, wish->speaker, err);
    if (rc == 0 && wish->text)
        rc = check_text(st, err);
    if (rc == 0 && wish->language)
        rc = check_language(st, wish->language, err);
    if (rc == 0 && wish->sound)
        rc = check_sound(st, wish->sound, err);
    return rc;
}

/* ------------------------------------------------------------------------------------- waiting */

int search_left(struct store *st, const char *stage, const char *what, struct buf *ret,
                struct err *err)
{
    struct stages s;
    char n[TEXT_LEN];
    int rc = read_stage_progress(st, stage, &s, err);

    if (rc == 0 && s.left > 0)
        buf_printf(ret, " %s %s still to be %s (nightshift run).", text_count(s.left, n),
                   text_plural(s.left, "recording is", "recordings are"), what);
    if (rc == 0 && s.absent > 0)
        buf_printf(ret, " %s %s gone from the disk, and %s not %s.", text_count(s.absent, n),
                   text_plural(s.absent, "recording is", "recordings are"),
                   text_plural(s.absent, "was", "were"), what);
    free(s.model_dir);
    return rc;
}

/* ---- what is said where a search found nothing */

/* Sentences about what is not known of the archive; each begins with a blank. */
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

static int look_near(struct store *st, const struct search_wish *wish, struct unknown *u,
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
    int rc = look_near(st, wish, &u, err);

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
