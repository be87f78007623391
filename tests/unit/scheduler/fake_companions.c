#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/scheduler/fake_worker.h"

struct rider {
    struct fake_lease l;
    uint32_t heard; /* shards below it were decoded */
    bool over, reached;
    int code;
};

struct pass { /* that has ended: a rider of it may come late */
    uint64_t lease;
    uint32_t upto;
    int code;
    bool reached;
};

static char names[SETUP_MAX_COMPANIONS][FAKE_STAGE_LEN];
static uint32_t name_count;
static struct rider riders[FAKE_MAX_LEASES];
static uint32_t rider_count;
static struct pass passes[FAKE_MAX_LEASES];
static uint32_t pass_count;

static bool mode(const char *name, const char *stage)
{
    const char *m = getenv("FAKE_COMPANIONS");
    size_t n = strlen(name);

    return m && strncmp(m, name, n) == 0 && (!m[n] || (m[n] == '@' && !strcmp(m + n + 1, stage)));
}

static bool refused(const char *stage)
{
    return mode("none", stage) || fake_mode("model", stage) || fake_mode("novram", stage);
}

void fake_companions_setup(const struct msg_setup *s, struct msg_ready *r)
{
    static char *said[SETUP_MAX_COMPANIONS + 1];

    for (uint32_t i = 0; i < s->companion_count; i++) {
        snprintf(names[i], sizeof(names[i]), "%s", s->companions[i].stage);
        if (mode("die", names[i]))
            abort();
        said[i] = fake_text(refused(names[i]) ? "9 GB are needed, 1 is free" : "");
    }
    name_count = s->companion_count;
    said[name_count] = fake_text("one too many");
    r->companions = said;
    r->companion_count = mode("few", "")                  ? 0
                         : mode("many", "") && name_count ? name_count + 1
                                                          : name_count;
}

void fake_companions_add(struct msg_lease *m)
{
    struct rider *r = &riders[rider_count];
    char what[FAKE_STAGE_LEN + 1];

    /* Only a broken scheduler says so. */
    if (rider_count == FAKE_MAX_LEASES || m->companion > name_count ||
        refused(names[m->companion - 1]))
        _exit(3);
    rider_count++;
    memset(r, 0, sizeof(*r));
    snprintf(what, sizeof(what), "+%s", names[m->companion - 1]);
    fake_lease_begin(&r->l, m, names[r->l.m.companion], what);
    snprintf(r->l.stage, sizeof(r->l.stage), "%s", what + 1);
    for (uint32_t i = 0; i < pass_count; i++)
        if (passes[i].lease == r->l.m.with) {
            r->heard = passes[i].upto;
            r->over = true;
            r->code = passes[i].code;
            r->reached = passes[i].reached;
        }
}

void fake_companions_heard(uint64_t with, uint32_t upto)
{
    for (uint32_t i = 0; i < rider_count; i++)
        if (riders[i].l.m.with == with && upto > riders[i].heard)
            riders[i].heard = upto;
}

void fake_companions_over(uint64_t with, uint32_t upto, int code, bool reached)
{
    fake_companions_heard(with, upto);
    for (uint32_t i = 0; i < rider_count; i++)
        if (riders[i].l.m.with == with) {
            riders[i].over = true;
            riders[i].reached = reached;
            riders[i].code = code;
        }
    if (name_count && pass_count < FAKE_MAX_LEASES)
        passes[pass_count++] = (struct pass){with, upto, code, reached};
}

void fake_companions_cap(uint64_t with, uint32_t last)
{
    for (uint32_t i = 0; i < rider_count; i++)
        if (riders[i].l.m.with == with && last < riders[i].l.last)
            riders[i].l.last = last;
}

static void end(uint32_t i, int code, bool reached)
{
    fake_lease_end(&riders[i].l, code, code ? "cancelled" : "", reached);
    memmove(&riders[i], &riders[i + 1], (--rider_count - i) * sizeof(riders[0]));
}

bool fake_companions_cancel(uint64_t lease)
{
    for (uint32_t i = 0; i < rider_count; i++)
        if (riders[i].l.m.lease_id == lease) {
            end(i, ERR_CANCELLED, false);
            return true;
        }
    return false;
}

void fake_companions_drain(void)
{
    while (rider_count)
        end(0, ERR_CANCELLED, false);
}

uint32_t fake_companions_held(void) { return rider_count; }

/* The misbehaviours of the middle shard. True: nothing more is to be said of it. */
static bool act(struct fake_lease *l)
{
    if (mode("crash", l->stage) || (mode("crashonce", l->stage) && !fake_has_word("crashed"))) {
        FILE *f;
        char path[600];

        snprintf(path, sizeof(path), "%s/crashed", getenv("FAKE_STATE"));
        f = fopen(path, "w");
        if (f)
            fclose(f);
        abort();
    }
    if (mode("outside", l->stage))
        fake_shard_done(l, l->m.lease_id, UINT32_MAX - 1);
    if (mode("foreign", l->stage)) {
        l->m.media_id++;
        fake_shard_done(l, l->m.lease_id, l->next);
        l->m.media_id--;
    }
    if (mode("twice", l->stage))
        fake_shard_done(l, l->m.lease_id, l->next);
    if (!mode("fail", l->stage))
        return false;
    fake_shard_failed(l, l->next);
    return true;
}

/* True: the lease was dropped. */
static bool say_shards(uint32_t i)
{
    struct rider *r = &riders[i];
    struct fake_lease *l = &r->l;

    for (; l->next < r->heard && l->next < l->shards && l->next <= l->last; l->next++) {
        if (fake_skipped(l, l->next))
            continue;
        if (l->next == l->shards / 2) {
            if (mode("drop", l->stage)) {
                end(i, ERR_CANCELLED, false);
                return true;
            }
            if (act(l))
                continue;
        }
        fake_shard_done(l, l->m.lease_id, l->next);
    }
    return false;
}

void fake_companions_work(void)
{
    uint32_t i = 0;

    if (rider_count == 0 || fake_has_word("late"))
        return;
    while (i < rider_count) {
        if (say_shards(i))
            continue;
        if (riders[i].over)
            end(i, riders[i].code ? ERR_CANCELLED : 0, riders[i].reached);
        else
            i++;
    }
}
