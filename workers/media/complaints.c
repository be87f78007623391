#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/media/open_media.h"

/* --- FFmpeg's complaints ---
 * The callback has no argument of ours; the context that complains carries the media in `opaque`.
 */

/* The contexts that FFmpeg makes for itself, to find out about a stream, carry nothing. */
static _Thread_local struct media *finding_out;

void media_finds_out(struct media *m) { finding_out = m; }

static struct media *media_of(void *context)
{
    const AVClass *class = context ? *(const AVClass **)context : NULL;

    if (!class || !class->class_name)
        return NULL;
    if (strcmp(class->class_name, "AVFormatContext") == 0)
        return ((AVFormatContext *)context)->opaque;
    if (strcmp(class->class_name, "AVCodecContext") == 0)
        return ((AVCodecContext *)context)->opaque;
    return NULL;
}

/* A line of FFmpeg's, printable, without its end. */
static void take_line(char *to, size_t size, const char *format, va_list args)
{
    char line[160];
    char *shown;
    size_t len;

    vsnprintf(line, sizeof(line), format, args);
    len = strlen(line);
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '.' || line[len - 1] == ' '))
        line[--len] = '\0';
    shown = utf8_display(line, len);
    utf8_copy(to, size, shown ? shown : "");
    free(shown);
}

/* FFmpeg reports an unsupported feature as a warning, in two lines: the first names it. */
__attribute__((format(printf, 3, 0))) static void note_missing(struct media *m, int level,
                                                               const char *format, va_list args)
{
    if (level > AV_LOG_WARNING)
        return;
    if (strncmp(format, " is not implemented", 19) == 0)
        utf8_copy(m->missing, sizeof(m->missing), m->warned);
    else
        take_line(m->warned, sizeof(m->warned), format, args);
}

/* FFmpeg reads a mov's references to other files and passes them over, the one kind without a sound
 * to come and the other with this file's bytes in its place; only its log tells. A reference to the
 * file itself is 12 bytes long. The track is the one that is being read. */
__attribute__((format(printf, 2, 0))) static void note_external(struct media *m, const char *format,
                                                                va_list args)
{
    char line[80];
    unsigned type, size = UINT_MAX;

    if (!m || !m->fmt || m->fmt->nb_streams < 1 || m->fmt->nb_streams > 64)
        return;
    if (strncmp(format, "Unknown dref type", 17) == 0) {
        vsnprintf(line, sizeof(line), format, args);
        if (sscanf(line, "Unknown dref type 0x%x size %u", &type, &size) != 2)
            return;
    }
    if (size > 12)
        m->external |= UINT64_C(1) << (m->fmt->nb_streams - 1);
}

__attribute__((format(printf, 3, 0))) static void on_log(void *context, int level,
                                                         const char *format, va_list args)
{
    struct media *m = media_of(context);
    char line[sizeof(m->note)];
    va_list again;

    if (m || finding_out) {
        va_copy(again, args);
        note_missing(m ? m : finding_out, level, format, again);
        va_end(again);
    }
    if (level > AV_LOG_ERROR &&
        (strncmp(format, "Unknown dref type", 17) == 0 || strstr(format, "opening external track")))
        note_external(media_of(context), format, args);
    if (!m || level > AV_LOG_ERROR)
        return;
    m->complaints++;
    take_line(line, sizeof(line), format, args);
    /* "moov atom not found" explains what "error reading header" behind it does not. */
    if (line[0] && !strstr(m->note, "moov"))
        utf8_copy(m->note, sizeof(m->note), line);
}

void media_hear_complaints(void) { av_log_set_callback(on_log); }
