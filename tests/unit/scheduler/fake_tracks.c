#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/scheduler/fake_worker.h"

static uint32_t stage_count;

static bool mode(const char *name, uint32_t k)
{
    const char *m = getenv("FAKE_TRACKS");
    size_t n = strlen(name);

    return m && strncmp(m, name, n) == 0 &&
           (!m[n] || (m[n] == '@' && !strcmp(m + n + 1, fake_stages[k])));
}

static bool refused(uint32_t k)
{
    return mode("none", k) || fake_mode("model", fake_stages[k]) ||
           fake_mode("novram", fake_stages[k]);
}

void fake_tracks_setup(const struct msg_setup *s, struct msg_ready *r)
{
    static char *said[SETUP_MAX_STAGES + 1];

    stage_count = s->stage_count;
    said[0] = fake_text("");
    for (uint32_t k = 1; k < stage_count; k++) {
        if (mode("die", k))
            abort();
        said[k] = fake_text(refused(k) ? "9 GB are needed, 1 is free" : "");
    }
    said[stage_count] = fake_text("one too many");
    r->why_not = said;
    r->stage_count = mode("few", 0)                       ? 1
                     : mode("many", 0) && stage_count > 1 ? stage_count + 1
                                                          : stage_count;
}

void fake_tracks_begin(struct fake_lease *l)
{
    for (uint32_t i = 1; i < l->m.track_count; i++) {
        uint32_t k = l->m.tracks[i].stage;
        char what[FAKE_STAGE_LEN + 1];

        if (k >= stage_count || refused(k)) /* only a broken scheduler says so */
            _exit(3);
        l->tracks[k].on = true;
        l->tracks[k].next = l->m.first;
        snprintf(what, sizeof(what), "+%s", fake_stages[k]);
        fake_count(what, l);
    }
}

bool fake_tracks_lie(uint32_t k) { return k && mode("longer", k); }

bool fake_tracks_lie_at_end(const struct fake_lease *l)
{
    return l->m.track_count > 1 && mode("lastly", 0);
}

bool fake_tracks_done(const struct fake_lease *l)
{
    for (uint32_t k = 1; k < SETUP_MAX_STAGES; k++)
        if (l->tracks[k].on)
            return false;
    return true;
}

void fake_tracks_drop(struct fake_lease *l) { memset(l->tracks, 0, sizeof(l->tracks)); }

static void crash(void)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof(path), "%s/crashed", getenv("FAKE_STATE"));
    f = fopen(path, "w");
    if (f)
        fclose(f);
    abort();
}

/* The misbehaviours of the middle shard. True: nothing more is to be said of it. */
static bool act(struct fake_lease *l, uint32_t k, uint32_t seq)
{
    if (mode("crash", k) || (mode("crashonce", k) && !fake_has_word("crashed")))
        crash();
    if (mode("outside", k))
        fake_shard_done(l, l->m.lease_id, k, UINT32_MAX - 1);
    if (mode("astray", k))
        fake_shard_done(l, l->m.lease_id, SETUP_MAX_STAGES - 1, seq);
    if (mode("foreign", k)) {
        l->m.media_id++;
        fake_shard_done(l, l->m.lease_id, k, seq);
        l->m.media_id--;
    }
    if (mode("twice", k))
        fake_shard_done(l, l->m.lease_id, k, seq);
    if (!mode("fail", k))
        return false;
    fake_shard_failed(l, k, seq, ERR_INPUT, "the sound stops making sense");
    return true;
}

static void say_shards(struct fake_lease *l, const struct msg_track *t)
{
    uint32_t *next = &l->tracks[t->stage].next;

    for (; *next < l->next && *next < l->shards && *next <= l->last; ++*next) {
        if (fake_skipped(t, *next))
            continue;
        if (*next == l->shards / 2) {
            if (mode("drop", t->stage)) {
                l->tracks[t->stage].on = false;
                return;
            }
            if (act(l, t->stage, *next))
                continue;
        }
        fake_shard_done(l, l->m.lease_id, t->stage, *next);
    }
}

void fake_tracks_work(struct fake_lease *l)
{
    if (fake_has_word("late"))
        return;
    for (uint32_t i = 1; i < l->m.track_count; i++) {
        const struct msg_track *t = &l->m.tracks[i];

        if (l->tracks[t->stage].on)
            say_shards(l, t);
        if (l->over)
            l->tracks[t->stage].on = false;
    }
}
