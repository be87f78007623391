/* Any text as a transcript file, and as somebody's correction of a transcript: refused with a
 * sentence, or words for segments that are there. The first byte chooses the format. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/correct/place_cues.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct place_segment talk[] = {
    {0, 4000, "Good morning and welcome to the market."},
    {4000, 9000, "The Sanches family came from the harbour."},
    {9000, 9000, ""},
    {9000, 12000, "Yes, yes, yes. 今日は港へ行きます。"},
    {12000, 16000, "Nobody knew where the money went."},
};
#define TALK (sizeof(talk) / sizeof(talk[0]))

static void check_sentence(const struct err *err)
{
    if (err->code == 0 || strchr(err->msg, '\n') || !utf8_valid(err->msg, strlen(err->msg)))
        abort();
}

static void check_cues(const struct cues *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct cue *cue = &c->list[i];

        if (cue->at + cue->len >= c->text.len || cue->end_ms < cue->start_ms ||
            strlen((char *)c->text.data + cue->at) != cue->len ||
            !utf8_valid(c->text.data + cue->at, cue->len))
            abort();
    }
}

static void check_placed(const struct placed *p)
{
    if (p->count != TALK || p->first > p->last || p->last >= TALK || p->same > p->words)
        abort();
    for (size_t i = 0; i < p->count; i++)
        if (p->texts[i] && (i < p->first || i > p->last || strchr(p->texts[i], '\n') ||
                            !utf8_valid(p->texts[i], strlen(p->texts[i]))))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = size > 0 ? utf8_repair(data + 1, size - 1) : NULL;
    struct cues cues = {0};
    struct placed p = {0};
    struct err err = {0};

    if (!text || strlen(text) + 1 < size) { /* a NUL: refused where files are read */
        free(text);
        return 0;
    }
    if (cues_parse((enum cues_format)(data[0] % (CUES_JSON + 1)), text, &cues, &err) != 0) {
        check_sentence(&err);
    } else {
        check_cues(&cues);
        if (place_cues(talk, TALK, &cues, &p, &err) != 0)
            check_sentence(&err);
        else
            check_placed(&p);
    }
    placed_free(&p);
    cues_free(&cues);
    free(text);
    return 0;
}
