#include "tools/export/html/word_index.h"

#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "tools/export/escape.h"
#include "tools/export/keys.h"
#include "workers/text/codepoints.h"

#define PIECE 1024 /* words, on average */

struct said {      /* in which recordings one word is */
    uint8_t *list; /* as in the script */
    uint32_t len, capacity, last;
};

struct word_index {
    struct keys keys;
    struct said *said; /* of each key */
    size_t capacity;
    struct buf folded;
};

int word_index_new(struct word_index **ret, struct err *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

void word_index_free(struct word_index *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->keys.count && i < w->capacity; i++)
        free(w->said[i].list);
    free(w->said);
    keys_free(&w->keys);
    buf_free(&w->folded);
    free(w);
}

/* ------------------------------------------------------------------------------------- words */

/* Is it of a script without blanks between words? archive.js has the same ranges. */
static bool is_word_alone(int32_t c)
{
    static const int32_t ranges[][2] = {{0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF},
                                        {0x3040, 0x30FF}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF},
                                        {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFF}};

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

enum kind { LETTER, MARK, OTHER };

static enum kind kind_of(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);

    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return LETTER;
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME ? MARK : OTHER;
}

static void put_code_point(struct buf *out, int32_t c)
{
    utf8proc_uint8_t bytes[4];

    buf_put(out, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

static void put_words(const struct codepoints *t, struct buf *out)
{
    size_t length = 0;

    for (size_t i = 0; i < t->len; i++) {
        const int32_t c = t->at[i] == 0x3C2 ? 0x3C3 : t->at[i]; /* a final sigma is a sigma */
        const bool letter = kind_of(c) == LETTER, alone = letter && is_word_alone(c);

        if (length > 0 && (!letter || alone)) {
            buf_put(out, "\n", 1);
            length = 0;
        }
        if (letter && length++ < WORD_INDEX_CHARACTERS)
            put_code_point(out, c);
        if (alone) {
            buf_put(out, "\n", 1);
            length = 0;
        }
    }
    if (length > 0)
        buf_put(out, "\n", 1);
}

int word_index_fold(const char *text, struct buf *out, struct err *err)
{
    struct codepoints as_is = {0}, resolved = {0}, bare = {0}, lower = {0};
    bool failed;

    codepoints_put_utf8(&as_is, text, strlen(text));
    codepoints_decompose(&resolved, &as_is, false);
    for (size_t i = 0; i < resolved.len; i++)
        if (kind_of(resolved.at[i]) != MARK)
            codepoints_put(&bare, resolved.at[i]);
    codepoints_lower(&lower, &bare);
    put_words(&lower, out);
    failed = as_is.failed || resolved.failed || bare.failed || lower.failed || out->failed;
    codepoints_free(&as_is);
    codepoints_free(&resolved);
    codepoints_free(&bare);
    codepoints_free(&lower);
    return failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* ------------------------------------------------------------------------------------ adding */

static int put_number(struct said *s, uint32_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    if (s->len + 8 > s->capacity) {
        uint32_t capacity = s->capacity * 2 + 8;
        uint8_t *list = realloc(s->list, capacity);

        if (!list)
            return -1;
        s->list = list;
        s->capacity = capacity;
    }
    for (; n >= 32; n >>= 5)
        s->list[s->len++] = (uint8_t)digits[32 + (n & 31)];
    s->list[s->len++] = (uint8_t)digits[n];
    return 0;
}

static int add_word(struct word_index *w, uint32_t recording, const char *s, size_t n,
                    struct err *err)
{
    size_t key;
    int rc = keys_give(&w->keys, s, n, &key, err);

    if (rc != 0)
        return rc;
    if (key >= w->capacity) {
        size_t capacity = w->capacity * 2 + 1024;
        struct said *said = realloc(w->said, capacity * sizeof(*said));

        if (!said)
            return err_set(err, ERR_NOMEM, "out of memory");
        memset(said + w->capacity, 0, (capacity - w->capacity) * sizeof(*said));
        w->said = said;
        w->capacity = capacity;
    }
    /* `last` counts from 1, so that 0 is: in none yet. */
    if (w->said[key].last == recording + 1)
        return 0;
    if (put_number(&w->said[key], recording + 1 - w->said[key].last) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    w->said[key].last = recording + 1;
    return 0;
}

int word_index_add(struct word_index *w, uint32_t recording, const char *text, struct err *err)
{
    int rc;

    buf_clear(&w->folded);
    rc = word_index_fold(text, &w->folded, err);
    for (size_t i = 0; rc == 0 && i < w->folded.len;) {
        const char *word = (const char *)w->folded.data + i;
        const size_t n = (size_t)((const char *)memchr(word, '\n', w->folded.len - i) - word);

        rc = add_word(w, recording, word, n, err);
        i += n + 1;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------ pieces */

struct entry {
    const char *word;
    const struct said *said;
};

/* In the order of UTF-16: characters beyond U+FFFF, whose bytes begin with F0 to F4, stand before
 * those from U+E000 on (EE and EF). */
static int compare_utf16_order(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)((const struct entry *)a)->word;
    const unsigned char *y = (const unsigned char *)((const struct entry *)b)->word;

    for (; *x && *x == *y; x++)
        y++;
    if (*x >= 0xEE && *y >= 0xEE && (*x >= 0xF0) != (*y >= 0xF0))
        return *x >= 0xF0 ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

static bool begins_piece(const char *word) { return keys_hash(word, strlen(word)) % PIECE == 0; }

/* entries[from] to the end of its piece; *next is behind it. */
static int put_piece(const struct entry *entries, size_t count, size_t *next, struct buf *table,
                     word_index_fn fn, void *arg)
{
    struct buf script = BUF_INIT;
    const size_t from = *next;
    size_t i = from;
    char id[20];
    int rc;

    snprintf(id, sizeof(id), "%016llx",
             (unsigned long long)keys_hash(entries[from].word, strlen(entries[from].word)));
    buf_printf(table, "%s[", from > 0 ? ",\n" : "");
    html_json(table, entries[from].word);
    buf_printf(table, ",\"%s\"]", id);
    buf_printf(&script, "words(\"%s\",[", id);
    do {
        buf_printf(&script, "%s[", i > from ? ",\n" : "");
        html_json(&script, entries[i].word);
        buf_printf(&script, ",\"");
        buf_put(&script, entries[i].said->list, entries[i].said->len);
        buf_printf(&script, "\"]");
        i++;
    } while (i < count && !begins_piece(entries[i].word));
    buf_printf(&script, "]);\n");
    *next = i;
    rc = script.failed ? ERR_NOMEM : fn(arg, id, &script);
    buf_free(&script);
    return rc;
}

int word_index_pieces(struct word_index *w, word_index_fn fn, void *arg, struct buf *table,
                      struct err *err)
{
    struct entry *entries = calloc(w->keys.count + 1, sizeof(*entries));
    int rc = entries ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; rc == 0 && i < w->keys.count; i++)
        entries[i] = (struct entry){keys_text(&w->keys, i), &w->said[i]};
    if (rc == 0)
        qsort(entries, w->keys.count, sizeof(*entries), compare_utf16_order);
    buf_printf(table, "pieces([");
    for (size_t i = 0; rc == 0 && i < w->keys.count;)
        rc = put_piece(entries, w->keys.count, &i, table, fn, arg);
    buf_printf(table, "]);\n");
    free(entries);
    if (rc == ERR_NOMEM || (rc == 0 && table->failed))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    return rc;
}
