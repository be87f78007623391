#include "workers/stages/stage.h"

#include <stdlib.h>
#include <string.h>

#include "workers/stages/stage_kind.h"

struct stage {
    const struct stage_kind *kind;
    void *self; /* the kind's own */
};

static const struct stage_kind *const kinds[] = {
    &stage_transcribe, &stage_diarize, &stage_sounds, &stage_embed_text, &stage_embed_audio,
};

static const struct stage_kind *find(const char *name, struct err *err)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    err_set(err, ERR_USAGE, "there is no stage '%.40s'", name);
    return NULL;
}

int stage_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
               struct err *err)
{
    const struct stage_kind *kind = find(setup->name, err);
    struct stage *s;
    int rc;

    if (!kind)
        return err->code;
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a stage");
    s->kind = kind;
    rc = kind->open(setup, be, &s->self, err);
    if (rc != 0) {
        free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void stage_close(struct stage *s)
{
    if (!s)
        return;
    s->kind->close(s->self);
    free(s);
}

int stage_predict_bytes(const struct stage_setup *setup, bool gpu, uint64_t *ret, struct err *err)
{
    const struct stage_kind *kind = find(setup->name, err);

    return kind ? kind->predict(setup, gpu, ret, err) : err->code;
}

uint32_t stage_slots(const struct stage *s) { return s->kind->slots(s->self); }

uint32_t stage_windows(const struct stage *s) { return s->kind->windows(s->self); }

const struct err *stage_lack(const struct stage *s) { return s->kind->lack(s->self); }

enum precision stage_precision(const struct stage *s) { return s->kind->precision(s->self); }

uint64_t stage_footprint(const struct stage *s, const struct backend *be)
{
    return s->kind->footprint(s->self, be);
}

int stage_add(struct stage *s, const struct stage_work *work, stage_done done, void *done_arg,
              struct stage_lane **ret, struct err *err)
{
    return s->kind->add(s->self, work, done, done_arg, ret, err);
}

void stage_remove(struct stage *s, struct stage_lane *lane) { s->kind->remove(s->self, lane); }

int stage_step(struct stage *s, bool *progress, struct err *err)
{
    return s->kind->step(s->self, progress, err);
}

void stage_on_beat(struct stage *s, void (*beat)(void *arg), void *arg)
{
    s->kind->on_beat(s->self, beat, arg);
}

void stage_stats(const struct stage *s, uint32_t *lanes, uint32_t *windows, int64_t *samples_done)
{
    s->kind->stats(s->self, lanes, windows, samples_done);
}
