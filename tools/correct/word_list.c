#include "tools/correct/word_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/reading/hunks.h"
#include "workers/text/codepoints.h"

void word_list_free(struct word_list *w)
{
    free(w->list);
    buf_free(&w->folded);
    *w = (struct word_list){0};
}

bool word_equal(const struct word *a, const struct word *b)
{
    return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

/* ------------------------------------------------------------------------------- folding */

struct folding {
    struct codepoints word, lower, plain;
};

static void folding_free(struct folding *f)
{
    codepoints_free(&f->word);
    codepoints_free(&f->lower);
    codepoints_free(&f->plain);
}

/* Behind `out`: lower case, without marks and punctuation; what is nothing else, as it is. */
static size_t fold(struct folding *f, const struct word *w, struct buf *out)
{
    size_t before = out->len;
    char *s;

    f->word.len = f->lower.len = f->plain.len = 0;
    codepoints_put_utf8(&f->word, w->s, w->len);
    codepoints_lower(&f->lower, &f->word);
    codepoints_decompose(&f->plain, &f->lower, false);
    f->word.len = 0;
    for (size_t i = 0; i < f->plain.len; i++)
        if (codepoint_is_word(f->plain.at[i]))
            codepoints_put(&f->word, f->plain.at[i]);
    s = f->plain.failed || f->lower.failed ? NULL : codepoints_utf8(&f->word);
    if (!s)
        out->failed = true;
    else if (s[0] != 0)
        buf_put(out, s, strlen(s));
    else
        buf_put(out, w->s, w->len);
    free(s);
    return out->failed ? 0 : out->len - before;
}

/* ------------------------------------------------------------------------------- splitting */

static int add(struct word_list *w, struct word word, struct err *err)
{
    if (w->count == WORD_LIST_MAX)
        return err_set(err, ERR_LIMIT, "it has more than %d words: try it in parts", WORD_LIST_MAX);
    if (!list_grow(&w->list, &w->room, w->count, sizeof(*w->list)))
        return err_set(err, ERR_NOMEM, "out of memory");
    w->list[w->count++] = word;
    return 0;
}

/* The first word of a part is joined where its script has no blanks. */
static bool is_joined(const char *text, const struct hunk_word *list, size_t i)
{
    size_t bytes;

    return i > 0 ? list[i - 1].at + list[i - 1].len == list[i].at
                 : script_of(text + list[i].at, &bytes) == SCRIPT_UNPARTED;
}

static int split(struct word_list *w, uint32_t part, const char *text, struct err *err)
{
    struct hunk_word *list = NULL;
    size_t n = 0;
    int rc = hunk_words(text, &list, &n, err);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add(w,
                 (struct word){.s = text + list[i].at,
                               .len = (uint32_t)list[i].len,
                               .part = part,
                               .joined = is_joined(text, list, i)},
                 err);
    free(list);
    return rc;
}

/* Words are said one after the other, each as long as the next. */
static void set_times(struct word_list *w, size_t first, int64_t start_ms, int64_t end_ms)
{
    int64_t n = (int64_t)(w->count - first);
    bool timed = start_ms >= 0 && end_ms >= start_ms;

    for (int64_t i = 0; i < n; i++)
        w->list[first + (size_t)i].ms =
            timed ? start_ms + (end_ms - start_ms) * (2 * i + 1) / (2 * n) : -1;
}

int word_list_add(struct word_list *w, uint32_t part, const char *text, int64_t start_ms,
                  int64_t end_ms, struct err *err)
{
    struct folding f = {0};
    size_t first = w->count;
    int rc = split(w, part, text, err);

    set_times(w, first, start_ms, end_ms);
    for (size_t i = first; rc == 0 && i < w->count; i++) {
        w->list[i].folded = w->folded.len;
        w->list[i].folded_len = fold(&f, &w->list[i], &w->folded);
        if (w->folded.failed)
            rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    folding_free(&f);
    return rc;
}

/* ------------------------------------------------------------------------------- numbers */

struct labelled {
    const uint8_t *s;
    size_t len;
    uint32_t *id;
};

static int by_text(const void *a, const void *b)
{
    const struct labelled *x = a, *y = b;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

static void label(struct word_list *w, struct labelled *all)
{
    for (size_t i = 0; i < w->count; i++)
        all[i] = (struct labelled){w->folded.data + w->list[i].folded, w->list[i].folded_len,
                                   &w->list[i].id};
}

/* Sorted, not hashed: no text can make it slow. */
int word_list_number(struct word_list *a, struct word_list *b, struct err *err)
{
    size_t n = a->count + b->count;
    struct labelled *all = calloc(n + 1, sizeof(*all));
    uint32_t id = 0;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory");
    label(a, all);
    label(b, all + a->count);
    qsort(all, n, sizeof(*all), by_text);
    for (size_t i = 0; i < n; i++) {
        id += i > 0 && by_text(&all[i - 1], &all[i]) != 0;
        *all[i].id = id;
    }
    free(all);
    return 0;
}
