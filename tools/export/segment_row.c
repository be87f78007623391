#include "tools/export/segment_row.h"

#include <stdlib.h>
#include <string.h>

void segment_row_free(struct segment_row *r)
{
    free(r->words);
    buf_free(&r->texts);
    memset(r, 0, sizeof(*r));
}

struct taking {
    struct segment_row *r;
    struct err *err;
};

/* While the texts grow, each word's text is its place among them. */
static int take_word(void *arg, const struct read_word *w)
{
    struct taking *t = arg;
    struct segment_row *r = t->r;

    if (r->count == r->room) {
        size_t room = r->room * 2 + 32;
        struct format_word *words = realloc(r->words, room * sizeof(*words));

        if (!words)
            return err_set(t->err, ERR_NOMEM, "out of memory");
        r->words = words;
        r->room = room;
    }
    r->words[r->count++] = (struct format_word){.start_ms = w->start_ms,
                                                .end_ms = w->end_ms,
                                                .probability = w->probability,
                                                .at = r->texts.len,
                                                .speaker_at = r->texts.len + strlen(w->text) + 1};
    buf_put(&r->texts, w->text, strlen(w->text) + 1);
    buf_put(&r->texts, w->speaker, strlen(w->speaker) + 1);
    return r->texts.failed ? err_set(t->err, ERR_NOMEM, "out of memory") : 0;
}

static int take_words(struct segment_row *r, struct store *st, int64_t segment_id, struct err *err)
{
    struct taking t = {r, err};
    int rc;

    r->count = 0;
    buf_clear(&r->texts);
    rc = read_words(st, segment_id, take_word, &t, err);
    for (size_t i = 0; rc == 0 && i < r->count; i++) {
        r->words[i].text = (const char *)r->texts.data + r->words[i].at;
        r->words[i].speaker = (const char *)r->texts.data + r->words[i].speaker_at;
    }
    return rc;
}

int segment_row_format(struct segment_row *r, struct store *st, const struct read_segment *row,
                       bool with_words, struct format_segment *ret, struct err *err)
{
    int rc = 0;

    *ret = (struct format_segment){.start_ms = row->start_ms,
                                   .end_ms = row->end_ms,
                                   .text = row->text,
                                   .heard = row->heard,
                                   .language = row->language,
                                   .speaker = row->speaker,
                                   .avg_logprob = row->avg_logprob,
                                   .no_speech_prob = row->no_speech_prob,
                                   .compression_ratio = row->compression_ratio,
                                   .temperature = row->temperature,
                                   .attempts = row->attempts,
                                   .speech_prob = row->speech_prob,
                                   .reason = row->reason};
    if (with_words && row->has_words) {
        rc = take_words(r, st, row->segment_id, err);
        ret->words = r->words;
        ret->word_count = r->count;
    }
    return rc;
}

/* As stages/doubt.h writes it. */
bool segment_row_doubted(const char *reason)
{
    static const char again[] = "tried again";

    return reason[0] != 0 &&
           (strncmp(reason, again, sizeof(again) - 1) != 0 || strstr(reason, "; "));
}
