#include "tools/export/subtitles/pieces.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/list.h"
#include "tools/export/escape.h"

struct range { /* of the text, with the times of its ends */
    size_t from, to;
    int64_t start_ms, end_ms;
    const char *speaker;
    bool word;
};

struct segment {
    const char *text; /* cleaned, within s->text */
    size_t at, len;
    struct range *ranges;
    size_t count;
};

bool pieces_wide_script(int32_t c)
{
    return (c >= 0x2E80 && c <= 0x30FF) || (c >= 0x31F0 && c <= 0x4DBF) ||
           (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0xFE30 && c <= 0xFE4F) || (c >= 0xFF01 && c <= 0xFF60) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

static size_t next_character(const char *s, size_t n, int32_t *c)
{
    utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, (utf8proc_int32_t *)c);

    if (k > 0)
        return (size_t)k;
    *c = 0xFFFD;
    return 1;
}

/* utf8proc has 1 for what is ambiguous, as terminals and players have. */
static uint32_t columns_of(int32_t c)
{
    int n = utf8proc_charwidth(c);

    return n > 0 ? (uint32_t)n : 0;
}

void pieces_measure(const char *text, size_t len, uint32_t *columns, uint32_t *characters)
{
    *columns = *characters = 0;
    for (size_t i = 0; i < len;) {
        int32_t c;

        i += next_character(text + i, len - i, &c);
        *columns += columns_of(c);
        *characters += columns_of(c) > 0;
    }
}

/* ---- kinsoku: what begins no line, and what ends none (JIS X 4051, GB/T 15834) */

static bool is_one_of(int32_t c, const char *set)
{
    for (size_t i = 0, n = strlen(set); i < n;) {
        int32_t other;

        i += next_character(set + i, n - i, &other);
        if (other == c)
            return true;
    }
    return false;
}

static bool begins_no_line(int32_t c)
{
    return columns_of(c) == 0 ||
           is_one_of(c, "、。，．・：；？！」』）】〉》〕］｝’”…‥ー〜～々ゝゞヽヾ"
                        "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
                        ",.:;?!)]}%°");
}

static bool ends_no_line(int32_t c) { return is_one_of(c, "「『（【〈《〔［｛‘“([{$¥￥"); }

/* ---- the text, and which part of it is said when */

/* With single blanks between words, none at the ends. */
static void put_clean(struct buf *out, size_t begin, const char *s)
{
    struct buf line = BUF_INIT;

    escape_line(&line, s, ESCAPE_NONE);
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] != ' ' || (out->len > begin && out->data[out->len - 1] != ' '))
            buf_put_u8(out, line.data[i]);
    out->failed |= line.failed;
    buf_free(&line);
}

static int take_text(struct subtitles *s, const struct document_segment *from, struct segment *x,
                     struct err *err)
{
    bool words = document_words_are_text(from);
    size_t begin = s->text.len, n = words ? from->word_count : 1;

    x->ranges = calloc(n, sizeof(*x->ranges));
    if (!x->ranges)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct document_word *w = words ? &from->words[i] : NULL;
        size_t at = s->text.len;

        put_clean(&s->text, begin, w ? w->text : from->text);
        while (at < s->text.len && s->text.data[at] == ' ')
            at++;
        x->ranges[x->count++] =
            (struct range){at,
                           s->text.len,
                           w ? w->start_ms : from->start_ms,
                           w ? w->end_ms : from->end_ms,
                           w && w->speaker && w->speaker[0] ? w->speaker : from->speaker,
                           words};
    }
    while (s->text.len > begin && s->text.data[s->text.len - 1] == ' ')
        s->text.len--;
    if (s->text.failed)
        return err_set(err, ERR_NOMEM, "out of memory");
    x->at = begin;
    x->len = s->text.len - begin;
    x->text = (const char *)s->text.data + begin;
    return 0;
}

/* When the text's byte `at` is said; `from`: a range at or before it, which moves on. */
static int64_t time_at(const struct segment *x, size_t at, size_t *from, bool *word)
{
    const struct range *r;

    while (*from + 1 < x->count && x->ranges[*from + 1].from <= at)
        ++*from;
    r = &x->ranges[*from];
    *word = r->word && r->from == at;
    if (at <= r->from || r->to <= r->from || r->end_ms <= r->start_ms)
        return r->start_ms;
    if (at >= r->to)
        return r->end_ms;
    return r->start_ms + (int64_t)((double)(r->end_ms - r->start_ms) * (double)(at - r->from) /
                                   (double)(r->to - r->from));
}

/* ---- pieces */

static int put_piece(struct subtitles *s, size_t *capacity, struct subtitle_piece p,
                     struct err *err)
{
    if (!list_grow(&s->pieces, capacity, s->piece_count, sizeof(*s->pieces)))
        return err_set(err, ERR_NOMEM, "out of memory");
    s->pieces[s->piece_count++] = p;
    return 0;
}

/* Bytes of the piece that begins at i. */
static size_t piece_length(const struct segment *x, size_t i, uint32_t columns)
{
    size_t at = i;
    uint32_t wide = 0;
    int32_t before = 0, c;

    while (at < x->len && x->text[at] != ' ') {
        size_t n = next_character(x->text + at, x->len - at, &c);
        bool script = pieces_wide_script(c) || pieces_wide_script(before);

        if (at > i && script && !begins_no_line(c) && !ends_no_line(before))
            break;
        if (at > i && columns_of(c) > 0 && wide + columns_of(c) > columns)
            break; /* too long for a line by itself */
        wide += columns_of(c);
        before = c;
        at += n;
    }
    return at - i;
}

int pieces_put(struct subtitles *s, size_t *capacity, const struct document_segment *segment,
               uint32_t columns, struct err *err)
{
    struct segment x = {0};
    size_t range = 0;
    bool blank = true;
    int rc = take_text(s, segment, &x, err);

    for (size_t i = 0; rc == 0 && i < x.len;) {
        struct subtitle_piece p = {.at = x.at + i, .blank = blank};
        bool word;

        if (x.text[i] == ' ') {
            blank = true;
            i++;
            continue;
        }
        p.len = piece_length(&x, i, columns);
        p.start_ms = time_at(&x, p.at, &range, &p.timed);
        p.end_ms = time_at(&x, p.at + p.len, &(size_t){range}, &word);
        /* The end of a word, not the beginning of one that follows without a blank. */
        for (size_t k = range; k < x.count && x.ranges[k].from < p.at + p.len; k++)
            if (x.ranges[k].to <= p.at + p.len)
                p.end_ms = x.ranges[k].end_ms;
        p.speaker = x.ranges[range].speaker;
        pieces_measure(x.text + i, p.len, &p.columns, &p.characters);
        rc = put_piece(s, capacity, p, err);
        blank = false;
        i += p.len;
    }
    free(x.ranges);
    return rc;
}
