#include "tools/score/spellings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* Sorted by `from`; both point into the JSON object, which lives as long. */
struct spelling {
    const char *from, *to;
    size_t len;
};

/* No word is longer; a longer replacement could make a text a thousand times as long. */
#define WORD_MAX 64

struct spellings {
    json_t *object;
    struct spelling *list;
    size_t n;
};

static int compare_spelling(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

static int by_from(const void *a, const void *b)
{
    const struct spelling *x = a, *y = b;

    return compare_spelling(x->from, x->len, y->from, y->len);
}

static int read_spelling_table(struct spellings *s, const char *path, struct err *err)
{
    const char *from;
    json_t *to;

    if (!json_is_object(s->object))
        return err_set(err, ERR_INPUT, "'%s' is not a table of spellings: it is not a JSON object",
                       path);
    s->list = calloc(json_object_size(s->object) + 1, sizeof(*s->list));
    if (!s->list)
        return err_set(err, ERR_NOMEM, "out of memory");
    json_object_foreach(s->object, from, to)
    {
        if (!json_is_string(to))
            return err_set(err, ERR_INPUT,
                           "'%s' is not a table of spellings: '%.40s' is not given as a word", path,
                           from);
        if (strlen(from) > WORD_MAX || json_string_length(to) > WORD_MAX)
            return err_set(
                err, ERR_INPUT,
                "'%s' is not a table of spellings: at '%.40s' is more than a word (over %d "
                "bytes)",
                path, from, WORD_MAX);
        s->list[s->n++] = (struct spelling){from, json_string_value(to), strlen(from)};
    }
    qsort(s->list, s->n, sizeof(*s->list), by_from);
    return 0;
}

int spellings_open(const char *path, struct spellings **ret, struct err *err)
{
    struct spellings *s = calloc(1, sizeof(*s));
    json_error_t why;
    FILE *f;
    int rc = 0;

    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory");
    f = fopen(path, "re");
    if (!f) {
        rc = err_sys(err, errno, "read '%s'", path);
    } else {
        s->object = json_loadf(f, 0, &why);
        if (!s->object)
            rc = err_set(err, ERR_INPUT, "'%s' is not a table of spellings: line %d: %.120s", path,
                         why.line, why.text);
        else
            rc = read_spelling_table(s, path, err);
        fclose(f);
    }
    if (rc != 0) {
        spellings_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void spellings_free(struct spellings *s)
{
    if (!s)
        return;
    json_decref(s->object);
    free(s->list);
    free(s);
}

size_t spellings_count(const struct spellings *s) { return s->n; }

const char *spellings_find(const struct spellings *s, const char *word, size_t len)
{
    const struct spelling key = {word, NULL, len}, *found;

    found = bsearch(&key, s->list, s->n, sizeof(*s->list), by_from);
    return found ? found->to : NULL;
}
