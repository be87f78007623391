#include "workers/stages/pieces.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/bert/embedder.h"

static bool within_letter(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* The offset at which to cut n bytes, more than 0; 0: they are one letter. */
static size_t find_cut_point(const char *s, size_t n)
{
    size_t mid = n / 2, at;

    for (size_t d = 0; d <= n / 4; d++) {
        if (mid + d < n && s[mid + d] == ' ')
            return mid + d;
        if (d < mid && s[mid - d] == ' ')
            return mid - d;
    }
    for (at = mid; at > 0 && within_letter(s[at]); at--)
        ;
    if (at > 0)
        return at;
    for (at = mid; at < n && within_letter(s[at]); at++)
        ;
    return at < n ? at : 0;
}

/* Tokens that a piece may have: what is put before it takes some of the model's, and of a prefix
 * that takes more than half of them the text's end is left away, as the model does. */
static int find_limit(struct pieces *p, const struct embedder *m, struct err *err)
{
    uint32_t prefix = 0, none = 0, most = embedder_max_tokens(m);
    int rc = embedder_count(m, embedder_prefix(m, EMBED_PASSAGE), &prefix, err);

    if (rc == 0)
        rc = embedder_count(m, "", &none, err);
    if (rc == 0)
        p->limit = prefix - none > most / 2 ? most - most / 2 : most - (prefix - none);
    return rc;
}

/* Takes over text. */
static int add_text_piece(struct pieces *p, char *text, uint32_t of, struct err *err)
{
    if (p->n == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 16;
        char **texts = realloc(p->text, capacity * sizeof(*texts));
        uint32_t *ofs;

        if (texts)
            p->text = texts;
        ofs = texts ? realloc(p->of, capacity * sizeof(*ofs)) : NULL;
        if (!ofs) {
            free(text);
            return err_set(err, ERR_NOMEM, "no memory for %u pieces of passages", capacity);
        }
        p->of = ofs;
        p->capacity = capacity;
    }
    p->text[p->n] = text;
    p->of[p->n++] = of;
    return 0;
}

/* Each call halves n, so that it is not deep. */
static int add_part(struct pieces *p, const struct embedder *m, const char *s, size_t n,
                    uint32_t of, struct err *err)
{
    char *text = strndup(s, n);
    uint32_t tokens = 0;
    size_t cut = 0;
    int rc;

    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for a passage");
    rc = embedder_count(m, text, &tokens, err);
    if (rc == 0 && tokens > p->limit)
        cut = find_cut_point(s, n);
    if (rc == 0 && cut == 0)
        return add_text_piece(p, text, of, err);
    free(text);
    if (rc == 0)
        rc = add_part(p, m, s, cut, of, err);
    return rc != 0 ? rc : add_part(p, m, s + cut, n - cut, of, err);
}

int pieces_add(struct pieces *p, const struct embedder *m, const char *text, uint32_t of,
               struct err *err)
{
    int rc = p->limit ? 0 : find_limit(p, m, err);

    return rc != 0 ? rc : add_part(p, m, text, strlen(text), of, err);
}

void pieces_free(struct pieces *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free(p->text[i]);
    free(p->text);
    free(p->of);
    *p = (struct pieces){0};
}
