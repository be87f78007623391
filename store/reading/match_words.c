#include "store/reading/match_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "store/reading/hunks.h"
#include "workers/text/codepoints.h"

#define CONTEXT_WORDS 2
#define NEARLY_MS 200
/* More than anybody says in four seconds; of words that all have one time, the first. */
#define CANDIDATES_MOST 256

struct key { /* bytes of `keys`; none of what is punctuation alone */
    size_t at, len;
};

struct keys {
    struct key *list;
    size_t count;
    struct buf bytes;
    struct hunk_word *words; /* of a text: where in it; else NULL */
};

struct word_matcher {
    const struct match_word *words;
    size_t count;
    enum match_kind kind;
    struct keys keys; /* of each word */
    size_t *by_time;  /* words in the order of start_ms */
};

/* --------------------------------------------------------------------------------------- keys */

static bool put_folded(struct buf *to, const char *word)
{
    struct folded_reader r = {word, false};
    size_t begin = to->len;

    for (int32_t c; (c = folded_next(&r)) != 0;)
        buf_put_u32(to, (uint32_t)c);
    return to->len > begin;
}

/* Without the punctuation around it, small letters, composed. */
static void put_bare(struct buf *to, const char *word, size_t len)
{
    struct codepoints raw = {0}, small = {0}, composed = {0};
    size_t from = len, until = 0;

    for (size_t at = 0, step; at < len; at += step)
        if (!script_is_punctuation(word + at, &step)) {
            from = at < from ? at : from;
            until = at + step;
        }
    if (from < until)
        codepoints_put_utf8(&raw, word + from, (until < len ? until : len) - from);
    codepoints_lower(&small, &raw);
    codepoints_canonical(&composed, &small, true);
    buf_put(to, composed.at, composed.len * sizeof(*composed.at));
    if (composed.len)
        buf_put_u32(to, ' ');
    to->failed |= raw.failed || small.failed || composed.failed;
    codepoints_free(&raw);
    codepoints_free(&small);
    codepoints_free(&composed);
}

/* A vowel sign that is a word by itself is none of the marks that are left out. */
static void put_key(struct buf *to, enum match_kind kind, const char *word, size_t len)
{
    size_t step;

    if (kind == MATCH_BARE || (!put_folded(to, word) && script_of(word, &step) == SCRIPT_UNPARTED))
        put_bare(to, word, len);
}

/* The word behind the others, by its bytes; scratch is anybody's. */
static void add_key(struct keys *k, enum match_kind kind, struct buf *scratch, const char *word,
                    size_t len)
{
    size_t begin = k->bytes.len;

    buf_clear(scratch);
    buf_put(scratch, word, len);
    if (!buf_cstr(scratch)) {
        k->bytes.failed = true;
        return;
    }
    put_key(&k->bytes, kind, (char *)scratch->data, len);
    k->list[k->count++] = (struct key){begin, k->bytes.len - begin};
}

static void keys_free(struct keys *k)
{
    free(k->list);
    free(k->words);
    buf_free(&k->bytes);
    *k = (struct keys){0};
}

/* Makes the keys of a text's words. */
static int keys_of(const char *text, enum match_kind kind, struct keys *ret, struct err *err)
{
    struct keys k = {0};
    struct buf scratch = BUF_INIT;
    size_t n = 0;
    int rc;

    *ret = k;
    rc = hunk_words(text, &k.words, &n, err);
    if (rc < 0)
        return rc;
    k.list = calloc(n + 1, sizeof(*k.list));
    for (size_t i = 0; k.list && i < n && !k.bytes.failed; i++)
        add_key(&k, kind, &scratch, text + k.words[i].at, k.words[i].len);
    if (!k.list || k.bytes.failed) {
        keys_free(&k);
        rc = err_no_memory(err, "corrections");
    }
    buf_free(&scratch);
    *ret = k;
    return rc;
}

static bool same_key(const struct keys *a, size_t i, const struct keys *b, size_t k)
{
    const struct key *x = &a->list[i], *y = &b->list[k];

    return x->len == y->len &&
           (x->len == 0 || memcmp(a->bytes.data + x->at, b->bytes.data + y->at, x->len) == 0);
}

/* ------------------------------------------------------------------------------------ matcher */

struct timed {
    int64_t start_ms;
    size_t word;
};

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    return (x->word > y->word) - (x->word < y->word);
}

static bool sort_words(struct word_matcher *m)
{
    struct timed *sorted = calloc(m->count + 1, sizeof(*sorted));

    m->by_time = calloc(m->count + 1, sizeof(*m->by_time));
    for (size_t i = 0; sorted && i < m->count; i++)
        sorted[i] = (struct timed){m->words[i].start_ms, i};
    if (sorted && m->by_time) {
        qsort(sorted, m->count, sizeof(*sorted), by_time);
        for (size_t i = 0; i < m->count; i++)
            m->by_time[i] = sorted[i].word;
    }
    free(sorted);
    return sorted && m->by_time;
}

int match_make(const struct match_word *words, size_t n, enum match_kind kind,
               struct word_matcher **ret, struct err *err)
{
    struct word_matcher *m = calloc(1, sizeof(*m));
    struct buf scratch = BUF_INIT;
    bool made;

    if (!m)
        return err_no_memory(err, "corrections");
    m->words = words;
    m->count = n;
    m->kind = kind;
    m->keys.list = calloc(n + 1, sizeof(*m->keys.list));
    for (size_t i = 0; m->keys.list && i < n && !m->keys.bytes.failed; i++)
        add_key(&m->keys, kind, &scratch, words[i].text, words[i].len);
    made = m->keys.list && !m->keys.bytes.failed && sort_words(m);
    buf_free(&scratch);
    if (!made) {
        match_free(m);
        return err_no_memory(err, "corrections");
    }
    *ret = m;
    return 0;
}

void match_free(struct word_matcher *m)
{
    if (!m)
        return;
    keys_free(&m->keys);
    free(m->by_time);
    free(m);
}

/* ------------------------------------------------------------------------------------- places */

/* Punctuation that is a word by itself: so many at the beginning, at the end. */
static size_t silent_head(const struct keys *k)
{
    size_t n = 0;

    while (n < k->count && !k->list[n].len)
        n++;
    return n;
}

static size_t silent_tail(const struct keys *k)
{
    size_t n = 0;

    while (n < k->count && !k->list[k->count - 1 - n].len)
        n++;
    return n;
}

/* Nothing but punctuation is looked for as it stands. */
static bool silent_there(const struct word_matcher *m, const struct keys *k, const char *said,
                         size_t at)
{
    if (!k->count || k->count > m->count - at)
        return false;
    for (size_t i = 0; i < k->count; i++)
        if (m->words[at + i].len != k->words[i].len ||
            memcmp(m->words[at + i].text, said + k->words[i].at, k->words[i].len) != 0)
            return false;
    return true;
}

/* Do the words that are not silent stand from `at` on, with whatever is silent between them? So
 * many they are then, with the silent ones that belong to them. */
static bool stands_at(const struct word_matcher *m, const struct keys *k, const char *said,
                      size_t at, struct match_place *ret)
{
    size_t head = silent_head(k), tail = silent_tail(k), i = at, end = at;

    *ret = (struct match_place){at, 0};
    if (head == k->count) {
        ret->words = k->count;
        return silent_there(m, k, said, at);
    }
    if (!m->keys.list[at].len)
        return false;
    for (size_t w = head; w < k->count - tail; w++) {
        if (!k->list[w].len)
            continue;
        while (i < m->count && !m->keys.list[i].len)
            i++;
        if (i == m->count || !same_key(&m->keys, i, k, w))
            return false;
        end = ++i;
    }
    for (; tail && end < m->count && !m->keys.list[end].len; tail--)
        end++;
    for (; head && ret->word && !m->keys.list[ret->word - 1].len; head--)
        ret->word--;
    ret->words = end - ret->word;
    return true;
}

struct candidate {
    size_t wanted;
    struct match_found found;
};

struct search {
    struct word_matcher *m;
    struct keys words, before, after; /* of the wanted one */
    struct candidate *list;
    size_t count, capacity;
};

static int count_context_matches(const struct search *s, struct match_place at)
{
    const struct word_matcher *m = s->m;
    size_t end = at.word + at.words;
    int n = 0;

    for (size_t i = 0; i < CONTEXT_WORDS && i < s->before.count && i < at.word; i++)
        n += same_key(&m->keys, at.word - 1 - i, &s->before, s->before.count - 1 - i);
    for (size_t i = 0; i < CONTEXT_WORDS && i < s->after.count && end + i < m->count; i++)
        n += same_key(&m->keys, end + i, &s->after, i);
    return n;
}

static int put_candidate(struct search *s, struct candidate c, struct err *err)
{
    if (!list_grow(&s->list, &s->capacity, s->count, sizeof(*s->list)))
        return err_no_memory(err, "corrections");
    s->list[s->count++] = c;
    return 0;
}

static size_t first_from(const struct word_matcher *m, int64_t ms)
{
    size_t low = 0, high = m->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (m->words[m->by_time[middle]].start_ms < ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_free(const bool *taken, struct match_place at)
{
    for (size_t i = 0; taken && i < at.words; i++)
        if (taken[at.word + i])
            return false;
    return true;
}

/* A common word stands everywhere: where neither its time nor anything around it is right, one or
 * two of them are others. */
static bool is_another(const struct search *s, const struct match_found *f)
{
    return s->words.count <= 2 && f->away_ms > NEARLY_MS && f->around == 0 &&
           s->before.count + s->after.count > 0;
}

static int find_candidates(struct search *s, const struct match_wanted *w, size_t number,
                           const bool *taken, struct err *err)
{
    const struct word_matcher *m = s->m;
    size_t before = s->count;
    int rc = 0;

    for (size_t i = first_from(m, w->start_ms - MATCH_NEAR_MS);
         rc == 0 && i < m->count && s->count - before < CANDIDATES_MOST; i++) {
        struct candidate c = {.wanted = number};

        /* A place may begin earlier, with punctuation; the limit holds for its first real word. */
        if (m->words[m->by_time[i]].start_ms - w->start_ms > MATCH_NEAR_MS)
            break;
        if (!stands_at(m, &s->words, w->words, m->by_time[i], &c.found.at) ||
            !is_free(taken, c.found.at))
            continue;
        c.found.away_ms = llabs(m->words[c.found.at.word].start_ms - w->start_ms);
        c.found.around = count_context_matches(s, c.found.at);
        if (!is_another(s, &c.found))
            rc = put_candidate(s, c, err);
    }
    return rc;
}

static int find_wanted(struct search *s, const struct match_wanted *w, size_t number,
                       const bool *taken, struct err *err)
{
    int rc = keys_of(w->words, s->m->kind, &s->words, err);

    if (rc == 0)
        rc = keys_of(w->before, s->m->kind, &s->before, err);
    if (rc == 0)
        rc = keys_of(w->after, s->m->kind, &s->after, err);
    if (rc == 0 && s->words.count)
        rc = find_candidates(s, w, number, taken, err);
    keys_free(&s->words);
    keys_free(&s->before);
    keys_free(&s->after);
    return rc;
}

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_worth(const struct match_found *x, const struct match_found *y)
{
    int c = compare(x->away_ms / NEARLY_MS, y->away_ms / NEARLY_MS);

    if (!c)
        c = compare(y->around, x->around);
    return c ? c : compare(x->away_ms, y->away_ms);
}

bool match_better(const struct match_found *a, const struct match_found *b)
{
    int c = a->at.words && b->at.words ? by_worth(a, b) : 0;

    return c ? c < 0 : a->at.words > b->at.words;
}

static int best_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int c = by_worth(&x->found, &y->found);

    if (!c)
        c = compare((int64_t)x->wanted, (int64_t)y->wanted);
    return c ? c : compare((int64_t)x->found.at.word, (int64_t)y->found.at.word);
}

static void assign_best_matches(struct search *s, bool *taken, struct match_found *ret)
{
    qsort(s->list, s->count, sizeof(*s->list), best_first);
    for (size_t i = 0; i < s->count; i++) {
        const struct candidate *c = &s->list[i];

        if (ret[c->wanted].at.words || !is_free(taken, c->found.at))
            continue;
        ret[c->wanted] = c->found;
        for (size_t k = 0; taken && k < c->found.at.words; k++)
            taken[c->found.at.word + k] = true;
    }
}

int match(struct word_matcher *m, const struct match_wanted *wanted, size_t n, bool *taken,
          struct match_found *ret, struct err *err)
{
    struct search s = {.m = m};
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        ret[i] = (struct match_found){0};
        rc = find_wanted(&s, &wanted[i], i, taken, err);
    }
    if (rc == 0 && s.count)
        assign_best_matches(&s, taken, ret);
    free(s.list);
    return rc;
}
