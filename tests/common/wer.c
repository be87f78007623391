#include "tests/common/wer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The words of a text, in one allocation each: copy holds them, list points into it. */
static size_t split(const char *text, char **copy, char ***list)
{
    size_t len = strlen(text), n = 0, out = 0;
    char *save = NULL;

    *copy = malloc(len + 1);
    *list = malloc((len / 2 + 1) * sizeof(**list));
    if (!*copy || !*list)
        abort();
    for (size_t i = 0; i < len; i++)
        if (text[i] != '.')
            (*copy)[out++] = (char)tolower((unsigned char)text[i]);
    (*copy)[out] = 0;
    for (char *w = strtok_r(*copy, " \t\r\n", &save); w; w = strtok_r(NULL, " \t\r\n", &save))
        (*list)[n++] = w;
    return n;
}

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

void wer_add(struct wer *w, const char *reference, const char *hypothesis)
{
    char *ref_copy, *hyp_copy, **ref, **hyp;
    size_t n = split(reference, &ref_copy, &ref), m = split(hypothesis, &hyp_copy, &hyp);
    size_t *row = malloc((m + 1) * sizeof(*row));

    if (!row)
        abort();
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t same = corner + (strcmp(ref[i - 1], hyp[j - 1]) != 0);

            corner = row[j];
            row[j] = least(row[j] + 1, row[j - 1] + 1, same);
        }
    }
    w->words += n;
    w->errors += row[m];
    free(row);
    free(ref);
    free(hyp);
    free(ref_copy);
    free(hyp_copy);
}
