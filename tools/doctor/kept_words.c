#include "tools/doctor/kept_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct word {
    const char *s;
    size_t n;
};

static unsigned split_words(const char *s, struct word ret[WORDS_MAX])
{
    unsigned count = 0;

    while (count < WORDS_MAX) {
        while (*s != 0 && !isalnum((unsigned char)*s))
            s++;
        if (*s == 0)
            break;
        ret[count].s = s;
        while (isalnum((unsigned char)*s))
            s++;
        ret[count].n = (size_t)(s - ret[count].s);
        count++;
    }
    return count;
}

static bool words_equal(struct word a, struct word b)
{
    return a.n == b.n && strncasecmp(a.s, b.s, a.n) == 0;
}

unsigned kept_words(const char *said, const char *heard, unsigned *count)
{
    struct word a[WORDS_MAX], b[WORDS_MAX];
    unsigned n = split_words(said, a), m = split_words(heard, b), row[WORDS_MAX + 1] = {0};

    /* row[j]: the longest common row of a[0..i] and b[0..j). */
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0, diagonal = 0; j < m; j++) {
            unsigned above = row[j + 1];

            if (words_equal(a[i], b[j]))
                row[j + 1] = diagonal + 1;
            else if (row[j] > row[j + 1])
                row[j + 1] = row[j];
            diagonal = above;
        }
    *count = n;
    return row[m];
}
