#include "tools/correct/edited.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/read/find.h"
#include "tools/correct/labels.h"
#include "tools/correct/place_cues.h"
#include "tools/export/formats.h"
#include "tools/export/transcript.h"

/* ---- the file */

static bool has_known_ending(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

    for (size_t i = 0; dot && transcript_endings[i]; i++)
        if (strcasecmp(dot + 1, transcript_endings[i]) == 0)
            return true;
    return false;
}

static int check_times(const char *path, enum cues_format format, const struct cues *cues,
                       struct err *err)
{
    for (size_t i = 0; (format == CUES_SRT || format == CUES_VTT) && i < cues->count; i++)
        if (cues->list[i].start_ms < 0)
            return err_set(
                err, ERR_INPUT,
                "line %llu of '%.300s' is not a time as in \"0:00:01.000 --> 0:00:02.500\"",
                (unsigned long long)cues->list[i].line, path);
    return 0;
}

struct naming {
    struct labels labels;
    struct err *err;
};

static int on_speaker(void *arg, const struct find_speaker *row)
{
    struct naming *n = arg;
    int rc = labels_add(&n->labels, row->label, n->err);

    return rc == 0 ? labels_add(&n->labels, row->name, n->err) : rc;
}

/* Names of speakers stand in front of texts, and are none. who: those that stand there today. */
static int strip_names(struct store *st, int64_t media_id, const struct labels *who,
                       struct cues *cues, struct err *err)
{
    const struct find_people people = {.media_id = media_id};
    struct naming n = {.err = err};
    int rc = find_speakers(st, &people, on_speaker, &n, err);

    for (size_t i = 0; rc == 0 && i < who->count; i++)
        rc = labels_add(&n.labels, who->list[i], err);
    if (rc == 0)
        labels_strip(&n.labels, cues);
    labels_free(&n.labels);
    return rc;
}

static int read_cues(const char *path, enum cues_format *format, struct cues *ret, struct err *err)
{
    int rc;

    if (!has_known_ending(path))
        return err_set(err, ERR_INPUT,
                       "'%.300s' is none of the formats of `nightshift export`: its name does not "
                       "end in .srt, .vtt, .txt, .tsv or .json",
                       path);
    rc = transcript_cues(path, format, ret, err);
    return rc == 0 ? check_times(path, *format, ret, err) : rc;
}

/* ---- the transcript, in the words that the file's format has for it */

static int render_segment_text(enum cues_format format, const struct current_segment *s, char **ret,
                               struct err *err)
{
    const struct document_segment segment = {.start_ms = s->start_ms,
                                             .end_ms = s->end_ms,
                                             .text = s->text,
                                             .language = "",
                                             .speaker = "",
                                             .reason = ""};
    const struct document d = {.path = "", .member = "", .segments = &segment, .segment_count = 1};
    const struct format_options plain = {.plain = true};
    struct cues cues = {0};
    struct buf b = BUF_INIT;
    const char *text = s->text;
    int rc = 0;

    if (format != CUES_JSON) {
        rc = formats_find(cues_format_name(format))->write(&d, &plain, &b, err);
        if (rc == 0)
            rc = buf_cstr(&b) ? cues_parse(format, buf_cstr(&b), &cues, err)
                              : err_set(err, ERR_NOMEM, "out of memory");
        text = rc == 0 && cues.count > 0 ? (const char *)cues.text.data + cues.list[0].at : "";
    }
    *ret = rc == 0 ? strdup(text) : NULL;
    cues_free(&cues);
    buf_free(&b);
    return rc == 0 && !*ret ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

static void free_segments(struct place_segment *segments, size_t count)
{
    for (size_t i = 0; segments && i < count; i++)
        free((char *)segments[i].text);
    free(segments);
}

static int render_all(enum cues_format format, const struct current *c, struct place_segment **ret,
                      struct err *err)
{
    struct place_segment *segments = calloc(c->count + 1, sizeof(*segments));
    int rc = segments ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; rc == 0 && i < c->count; i++) {
        char *text = NULL;

        rc = render_segment_text(format, &c->list[i], &text, err);
        segments[i] = (struct place_segment){c->list[i].start_ms, c->list[i].end_ms, text};
    }
    *ret = segments;
    return rc;
}

/* ---- a whole text, or a part of it */

static int add_all(struct changes *changes, const struct current *c, const struct placed *p,
                   struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->count; i++)
        if (p->texts[i])
            rc = changes_add(changes, &c->list[i], p->texts[i], false, err);
    return rc;
}

static int add_text(const struct current *c, enum cues_format format, const struct cues *cues,
                    struct changes *changes, struct edited *ret, struct err *err)
{
    struct placed p = {0};
    struct place_segment *segments = NULL;
    int rc = render_all(format, c, &segments, err);

    if (rc == 0)
        rc = place_cues(segments, c->count, cues, &p, err);
    if (rc == 0)
        rc = add_all(changes, c, &p, err);
    if (rc == 0) {
        ret->before = p.first;
        ret->behind = c->count - 1 - p.last;
        ret->nowhere = p.nowhere;
    }
    placed_free(&p);
    free_segments(segments, c->count);
    return rc;
}

/* ---- single segments, each with what it read */

static bool is_guarded(const struct cues *cues)
{
    for (size_t i = 0; i < cues->count; i++)
        if (cues->list[i].guarded)
            return true;
    return false;
}

/* The segment of the same times, of several such the one that reads `was`; *ret NULL: none. */
static int find_segment(const struct current *c, const struct cue *cue, const char *was,
                        const struct current_segment **ret, bool *alike, struct err *err)
{
    int rc = 0;

    *ret = NULL;
    *alike = false;
    for (size_t i = 0; rc == 0 && i < c->count && !*alike; i++)
        if (c->list[i].start_ms == cue->start_ms && c->list[i].end_ms == cue->end_ms) {
            *ret = &c->list[i];
            rc = changes_alike(c->list[i].text, was, alike, err);
        }
    return rc;
}

static int add_guarded(const struct current *c, const struct cues *cues, struct changes *changes,
                       struct changes *refused, struct err *err)
{
    char nothing[] = "";
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < cues->count; i++) {
        const struct cue *cue = &cues->list[i];
        const char *text = (const char *)cues->text.data + cue->at;
        const char *was = (const char *)cues->text.data + cue->was_at;
        struct current_segment gone = {
            .start_ms = cue->start_ms, .end_ms = cue->end_ms, .text = nothing, .heard = nothing};
        const struct current_segment *s;
        bool alike;

        if (!cue->guarded || cue->start_ms < 0)
            return err_set(err, ERR_INPUT,
                           "segment %llu has no times, or no \"was\" as others have",
                           (unsigned long long)cue->line);
        rc = find_segment(c, cue, was, &s, &alike, err);
        /* Both lists leave out a segment that already reads like the file. */
        if (rc == 0)
            rc = changes_add(alike ? changes : refused, s ? s : &gone, text, false, err);
    }
    return rc;
}

int edited_read(struct store *st, int64_t media_id, const char *path, struct changes *changes,
                struct edited *ret, struct err *err)
{
    struct current c = {0};
    struct cues cues = {0};
    enum cues_format format = CUES_TXT;
    int rc = current_read(st, media_id, &c, err);

    if (rc == 0 && c.count == 0)
        rc = err_set(err, ERR_INPUT,
                     "there is no transcript of it. `nightshift show` says what there is");
    if (rc == 0)
        rc = read_cues(path, &format, &cues, err);
    ret->segments = c.count;
    if (rc == 0 && is_guarded(&cues) && cues.recording && cues.recording != media_id)
        rc = err_set(err, ERR_INPUT, "'%.300s' has corrections of recording %lld, not of %lld",
                     path, (long long)cues.recording, (long long)media_id);
    else if (rc == 0 && is_guarded(&cues))
        rc = add_guarded(&c, &cues, changes, &ret->refused, err) == 0
                 ? 0
                 : err_prefix(err, "'%.300s'", path);
    else if (rc == 0) {
        rc = strip_names(st, media_id, &c.who, &cues, err);
        if (rc == 0 && add_text(&c, format, &cues, changes, ret, err) != 0)
            rc = err_prefix(err, "'%.300s'", path);
    }
    cues_free(&cues);
    current_free(&c);
    return rc;
}
