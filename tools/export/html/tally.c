#include "tools/export/html/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/text.h"
#include "tools/export/escape.h"

#define ROW 34 /* pixels: a line of text and its bar */

void tally_free(struct tally *t)
{
    keys_free(&t->keys);
    free(t->sum);
    *t = (struct tally){0};
}

int tally_add(struct tally *t, const char *key, int64_t n, struct err *err)
{
    size_t i;
    int rc = keys_give(&t->keys, key, strlen(key), &i, err);

    if (rc != 0)
        return rc;
    if (i >= t->capacity) {
        size_t capacity = t->capacity * 2 + 64;
        int64_t *sum = realloc(t->sum, capacity * sizeof(*sum));

        if (!sum)
            return err_set(err, ERR_NOMEM, "out of memory");
        memset(sum + t->capacity, 0, (capacity - t->capacity) * sizeof(*sum));
        t->sum = sum;
        t->capacity = capacity;
    }
    /* A catalog may have any times. */
    if (__builtin_add_overflow(t->sum[i], n, &t->sum[i]))
        t->sum[i] = INT64_MAX;
    return 0;
}

struct bar {
    const char *name;
    int64_t sum;
};

static int by_size(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;

    return x->sum != y->sum ? (x->sum < y->sum ? 1 : -1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct bar *)a)->name, ((const struct bar *)b)->name);
}

/* "1,234 h" from ten on, "4.2 h" below, minutes and seconds below one; of recordings that nobody
 * has opened, "unknown". */
static char *format_tally_value(const struct tally_chart *chart, int64_t sum, char out[TEXT_LEN])
{
    if (!chart->hours)
        return text_count((uint64_t)sum, out);
    if (sum > 0 && sum < 3600000)
        return text_length(sum, out);
    if (sum <= 0)
        snprintf(out, TEXT_LEN, "unknown");
    else if (sum < 36000000)
        snprintf(out, TEXT_LEN, "%.1f h", (double)sum / 3600000);
    else {
        text_count(((uint64_t)sum + 1800000) / 3600000, out);
        snprintf(out + strlen(out), TEXT_LEN - strlen(out), " h");
    }
    return out;
}

static void put_bars(const struct tally_chart *chart, const struct bar *bars, size_t n,
                     struct buf *out)
{
    char text[TEXT_LEN];
    int64_t most = 1;

    for (size_t i = 0; i < n; i++)
        most = bars[i].sum > most ? bars[i].sum : most;
    buf_printf(out, "<figure class=\"chart\"><figcaption>");
    html_text(out, chart->title);
    buf_printf(out,
               "</figcaption>\n<svg width=\"100%%\" height=\"%zu\" role=\"group\" aria-label=\"",
               n * ROW);
    html_text(out, chart->title);
    buf_printf(out, "\">\n");
    for (size_t i = 0; i < n; i++) {
        char *name = text_fit(bars[i].name, 34);

        buf_printf(out, "<text x=\"0\" y=\"%zu\">", i * ROW + 14);
        html_text(out, name ? name : "");
        buf_printf(out, "</text><text class=\"value\" x=\"100%%\" y=\"%zu\">%s</text>",
                   i * ROW + 14, format_tally_value(chart, bars[i].sum, text));
        buf_printf(out, "<rect x=\"0\" y=\"%zu\" width=\"%.1f%%\" height=\"8\" rx=\"2\"/>\n",
                   i * ROW + 20, 100.0 * (double)bars[i].sum / (double)most);
        free(name);
    }
    buf_printf(out, "</svg></figure>\n");
}

void tally_put(const struct tally *t, const struct tally_chart *chart, struct buf *out)
{
    size_t n = t->keys.count, from = 0;
    struct bar *bars = calloc(n + 1, sizeof(*bars));

    if (!bars) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        bars[i] = (struct bar){keys_text(&t->keys, i), t->sum[i]};
    if (chart->order != TALLY_AS_ADDED)
        qsort(bars, n, sizeof(*bars), chart->order == TALLY_LARGEST ? by_size : by_name);
    if (chart->most > 0 && n > chart->most) {
        from = chart->order == TALLY_BY_NAME ? n - chart->most : 0;
        n = chart->most;
    }
    if (n > 0)
        put_bars(chart, bars + from, n, out);
    free(bars);
}
