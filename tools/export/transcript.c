#include "tools/export/transcript.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/utf8.h"

const char *const transcript_endings[] = {"txt", "json", "vtt", "srt", "tsv", NULL};

/* The whole file as a C string in b. */
static int read_file(const char *path, struct buf *b, struct err *err)
{
    FILE *f = fopen(path, "re");
    char chunk[16384];
    size_t n;
    int rc = 0;

    if (!f)
        return err_sys(err, errno, "read '%s'", path);
    while (rc == 0 && (n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        buf_put(b, chunk, n);
        if (b->failed)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        else if (b->len > TRANSCRIPT_FILE_MAX)
            rc = err_set(err, ERR_LIMIT,
                         "'%s' is larger than 64 MiB, which no transcript is: try it in parts",
                         path);
    }
    if (rc == 0 && ferror(f))
        rc = err_sys(err, errno, "read '%s'", path);
    fclose(f);
    if (rc == 0 && !buf_cstr(b))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && b->len >= 2 &&
        (memcmp(b->data, "\xFF\xFE", 2) == 0 || memcmp(b->data, "\xFE\xFF", 2) == 0))
        rc = err_set(err, ERR_INPUT, "'%s' is UTF-16: save it as UTF-8", path);
    if (rc == 0 && memchr(b->data, 0, b->len))
        rc = err_set(err, ERR_INPUT, "'%s' is not text: there are NUL bytes in it", path);
    if (rc == 0 && !utf8_valid(b->data, b->len))
        rc =
            err_set(err, ERR_INPUT,
                    "'%s' is not UTF-8. Try `iconv -f LATIN1 -t UTF-8` on it, or name the encoding "
                    "that it has",
                    path);
    return rc;
}

static enum cues_format format_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

    for (size_t i = 0; dot && transcript_endings[i]; i++)
        if (strcasecmp(dot + 1, transcript_endings[i]) == 0)
            for (int f = CUES_TXT; f <= CUES_JSON; f++)
                if (strcmp(transcript_endings[i], cues_format_name((enum cues_format)f)) == 0)
                    return (enum cues_format)f;
    return CUES_TXT;
}

int transcript_cues(const char *path, enum cues_format *format, struct cues *ret, struct err *err)
{
    struct buf file = BUF_INIT;
    int rc = read_file(path, &file, err);

    *format = format_of(path);
    if (rc == 0 && cues_parse(*format, (const char *)file.data, ret, err) != 0)
        rc = err_prefix(err, "'%.300s'", path);
    buf_free(&file);
    return rc;
}

int transcript_read(const char *path, char **ret, char language[CUES_LANGUAGE_LEN], struct err *err)
{
    struct cues cues = {0};
    struct buf out = BUF_INIT;
    enum cues_format format;
    int rc = transcript_cues(path, &format, &cues, err);

    for (size_t i = 0; rc == 0 && i < cues.count; i++) {
        buf_put(&out, cues.text.data + cues.list[i].at, cues.list[i].len);
        buf_put_u8(&out, '\n');
    }
    memcpy(language, cues.language, CUES_LANGUAGE_LEN);
    cues_free(&cues);
    if (rc == 0 && !buf_cstr(&out))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        *ret = (char *)out.data;
    else
        buf_free(&out);
    return rc;
}
