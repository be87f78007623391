#include "tools/cli/highlight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"

/* Puts s with its marks; the text between them is made safe to print. */
static void put_safe(struct buf *line, const char *s)
{
    for (;;) {
        size_t n = strcspn(s, MARK_BEGIN MARK_END);
        char *safe = utf8_display(s, n);

        if (safe)
            buf_put(line, safe, strlen(safe));
        free(safe);
        if (s[n] == 0)
            return;
        buf_put(line, s + n, 1);
        s += n + 1;
    }
}

void highlight_print(const char *text, size_t indent)
{
    const bool color = cli_color(stdout);
    const char *open = color ? "\033[1;33m" : "[", *close = color ? "\033[0m" : "]";
    struct buf line = BUF_INIT, out = BUF_INIT;
    const char *safe;

    put_safe(&line, text);
    safe = buf_cstr(&line);
    text_wrap(text_to_buf, &out, safe ? safe : "", indent, indent, cli_columns(stdout));
    for (size_t i = 0; i < out.len; i++)
        if (out.data[i] == MARK_BEGIN[0])
            fputs(open, stdout);
        else if (out.data[i] == MARK_END[0])
            fputs(close, stdout);
        else
            putchar(out.data[i]);
    putchar('\n');
    buf_free(&line);
    buf_free(&out);
}
