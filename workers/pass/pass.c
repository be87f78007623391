#include "workers/pass/pass.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "workers/media/decoder.h"
#include "workers/stages/stage.h"
#include "workers/pass/feed.h"
#include "workers/pass/lease.h"
#include "workers/pass/mounts.h"
#include "workers/pass/split.h"
#include "workers/pass/unpack.h"

#define SHORTAGE_MS 300000 /* how long a decoder that cannot be started is tried again */
#define STEP_MS 1000

/* Makes the decoder known to those who may cancel it, or closes it when they already have. */
static int publish_decoder(const struct pass *p, struct decoder *d, struct err *err)
{
    int rc;

    pthread_mutex_lock(&p->w->lock);
    rc = feed_may_go_on(p, p->l->msg.first, err);
    if (rc == 0)
        p->l->decoder = d;
    pthread_mutex_unlock(&p->w->lock);
    if (rc != 0)
        decoder_close(d);
    return rc;
}

/* file: which one it is of, where the lease's path was opened. */
static int start_decoder(const struct pass *p, struct stat *file, struct decoder **ret,
                         struct err *err)
{
    const struct msg_lease *m = &p->l->msg;
    const bool unpacked = p->l->from == LEASE_MEMORY;
    struct decoder *d = NULL;
    int fd = p->l->unpacked, rc = unpacked ? 0 : unpack_open(m->path, &fd, err);

    if (rc != 0)
        return rc;
    if (fstat(fd, file) != 0)
        *file = (struct stat){0};
    rc = decoder_start(
        fd,
        &(struct decoder_work){.member = unpacked ? "" : m->member,
                               .name = m->member[0] ? m->member : m->path,
                               .nth = m->nth,
                               .skip_samples = shard_first_sample(m->shard_ms, m->first),
                               .want_hash = m->want_hash,
                               .fingerprint = m->fingerprint,
                               .hearing = p->w->stages[0].hearing},
        NULL, &d, err);
    if (!unpacked)
        close(fd);
    if (rc == 0)
        rc = publish_decoder(p, d, err);
    if (rc == 0)
        *ret = d;
    return rc;
}

/* If the machine lacks descriptors, processes or memory for some minutes, every recording that
 * begins meanwhile would be quarantined: so no attempt is charged for that. */
static int start_patiently(const struct pass *p, struct stat *file, struct decoder **ret,
                           struct err *err)
{
    const int64_t deadline_ms = clock_mono_ms() + SHORTAGE_MS;
    int rc = start_decoder(p, file, ret, err);

    while (rc == ERR_NOMEM && clock_mono_ms() < deadline_ms) {
        const int64_t until_ms = clock_mono_ms() + STEP_MS;
        const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
        struct err stop = {0};

        pthread_mutex_lock(&p->w->lock);
        pthread_cond_timedwait(&p->w->room, &p->w->lock, &until);
        rc = feed_may_go_on(p, p->l->msg.first, &stop);
        pthread_mutex_unlock(&p->w->lock);
        *err = stop;
        if (rc == 0)
            rc = start_decoder(p, file, ret, err);
    }
    return rc;
}

static char *clean_sentence(const char *s)
{
    struct err e = {0};

    utf8_copy(e.msg, sizeof(e.msg), s);
    return worker_sentence(&e);
}

/* The numbers come from the file. Values that the protocol would refuse are sent as unknown: a
 * recording must not make the scheduler close a worker. */
static void post_media(const struct pass *p, const struct decoder_info *i)
{
    struct buf b = BUF_INIT;
    struct msg_media m = {
        .lease_id = p->l->msg.lease_id,
        .media_id = p->l->msg.media_id,
        .duration_ms =
            i->duration_ms < -1 || i->duration_ms > PROTOCOL_MAX_MS ? -1 : i->duration_ms,
        .sample_rate_hz = i->sample_rate_hz > INT32_MAX ? 0 : i->sample_rate_hz,
        .channels = i->channels > UINT16_MAX ? 0 : i->channels,
        .audio_tracks = i->tracks > UINT16_MAX ? 0 : i->tracks,
        .no_sound = i->tracks == 0,
        .left_out = clean_sentence(i->left_out),
        .mix_left_out = clean_sentence(i->mix_left_out),
        .container = clean_sentence(i->container),
        .codec = clean_sentence(i->codec),
        .sources = i->sources,
        .source_count = i->source_count,
        .tags = i->tags,
        .tag_count = i->tag_count,
    };

    msg_media_put(&b, &m);
    outbox_post(&p->w->out, MSG_MEDIA, &b);
    m.sources = NULL; /* the event's own */
    m.tags = NULL;
    m.source_count = m.tag_count = 0;
    msg_media_free(&m);
}

/* Lock held. */
static int keep_channels(struct lease *l, const struct decoder_end *end, struct err *err)
{
    if (end->channel_count == 0)
        return 0;
    l->channels = calloc(end->channel_count, sizeof(*l->channels));
    if (!l->channels)
        return err_set(err, ERR_NOMEM, "out of memory");
    memcpy(l->channels, end->channels, end->channel_count * sizeof(*l->channels));
    l->channel_count = end->channel_count;
    return 0;
}

static int on_end(const struct pass *p, struct splitter *split, const struct decoder_end *end,
                  struct err *err)
{
    struct lease *l = p->l;
    int rc;

    pthread_mutex_lock(&p->w->lock);
    l->total_samples = end->total_samples;
    pthread_mutex_unlock(&p->w->lock);
    rc = splitter_end(split, end->total_samples, err);
    /* Enough for this lease, but the recording's end is known all the same. */
    if (rc == ERR_EMPTY)
        rc = 0;
    if (rc != 0)
        return rc;
    feed_end(p);
    pthread_mutex_lock(&p->w->lock);
    l->reached_end = true;
    l->has_hash = l->msg.want_hash && end->has_hash;
    if (l->has_hash)
        memcpy(l->content_hash, end->content_hash, sizeof(l->content_hash));
    utf8_copy(l->damage, sizeof(l->damage), end->damage ? end->damage : "");
    l->length = end->length;
    utf8_copy(l->clock, sizeof(l->clock), end->clock ? end->clock : "");
    rc = keep_channels(l, end, err);
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

static int on_pcm(const struct pass *p, struct splitter *split, const struct decoder_event *ev,
                  struct err *err)
{
    pthread_mutex_lock(&p->w->lock);
    p->w->decoded_samples += (int64_t)ev->samples;
    pthread_mutex_unlock(&p->w->lock);
    return splitter_feed(split, ev->pcm, ev->samples, ev->at_sample, err);
}

/* A decoder that skips to its first shard, for hours perhaps, is at work. */
static void on_pulse(void *arg)
{
    const struct pass *p = arg;

    pthread_mutex_lock(&p->w->lock);
    p->w->pulses++;
    pthread_mutex_unlock(&p->w->lock);
}

static int on_info(const struct pass *p, struct splitter *split, const struct decoder_info *info,
                   struct err *err)
{
    const struct hearing *h = &p->w->stages[0].hearing;

    if (info->source_count && h->channels == HEARING_MIX && (h->tracks & (h->tracks - 1)) == 0)
        return err_set(err, ERR_PROTOCOL, "the decoder tells of sources that nobody asked for");
    pthread_mutex_lock(&p->w->lock);
    p->l->sources = info->source_count;
    pthread_mutex_unlock(&p->w->lock);
    post_media(p, info);
    return splitter_stride(split, info->source_count ? info->source_count + 1 : 1, err);
}

/* Until the recording ends, or nobody wants the rest (both 0), or an error. *told: something came.
 */
static int read_events(const struct pass *p, struct decoder *d, struct splitter *split, bool *told,
                       struct err *err)
{
    struct decoder_event ev;
    int rc;

    for (;;) {
        rc = decoder_next(d, &ev, err);
        if (rc != 0)
            return rc;
        switch (ev.type) {
        case DECODER_INFO:
            if (*told) /* at its end: the audio has come */
                post_media(p, &ev.info);
            else
                rc = on_info(p, split, &ev.info, err);
            if (rc != 0)
                return rc;
            *told = true;
            break;
        case DECODER_PCM:
            rc = on_pcm(p, split, &ev, err);
            if (rc != 0)
                return rc == ERR_EMPTY ? 0 : rc;
            break;
        case DECODER_END:
            return on_end(p, split, &ev.end, err);
        case DECODER_ENTRY:
        case DECODER_BYTES:
            return err_set(err, ERR_PROTOCOL, "the decoder listed an archive without being asked");
        }
    }
}

static void inject_fault(const struct pass *p)
{
    enum fault_kind kind = faults_on_recording(&p->w->faults, p->l->msg.path, p->l->msg.member);

    if (kind == FAULT_NONE)
        return;
    if (kind == FAULT_CRASH)
        kill(getpid(), SIGKILL);
    pthread_mutex_lock(&p->w->lock);
    p->w->hung |= kind == FAULT_HANG;
    p->w->stalled |= kind == FAULT_STALL;
    worker_changed(p->w);
    pthread_mutex_unlock(&p->w->lock);
    outbox_wake(&p->w->out);
}

/* Decodes the recording from where the lease has it. */
static int decode_recording(const struct pass *p, struct splitter *split, bool *told,
                            struct err *err)
{
    struct decoder *d = NULL;
    struct stat file;
    int rc = start_patiently(p, &file, &d, err);

    if (rc == 0) {
        decoder_on_pulse(d, on_pulse, (void *)p);
        rc = read_events(p, d, split, told, err);
    }
    if (rc == ERR_STALLED && d)
        rc = mounts_put_apart(p->l->msg.path, err);
    pthread_mutex_lock(&p->w->lock);
    p->l->decoder = NULL;
    if (d && p->l->from == LEASE_FILE && (rc == ERR_CHANGED || rc == ERR_MISSING))
        unpack_note_vain(p->w, p->l, &file);
    pthread_mutex_unlock(&p->w->lock);
    decoder_close(d);
    return rc;
}

/* True: there may be more to look at in the archive. */
static bool release_unpacked(const struct pass *p)
{
    bool more;

    pthread_mutex_lock(&p->w->lock);
    more = p->l->from == LEASE_MEMORY && !unpack_is_vain(p->w, p->l);
    unpack_release(p->w, p->l);
    pthread_mutex_unlock(&p->w->lock);
    return more;
}

static int run_pass(const struct pass *p, struct err *err)
{
    struct split_sink sink = feed_sink(p);
    struct splitter *split = NULL;
    bool told = false;
    int rc;

    inject_fault(p);
    if (p->l->from == LEASE_ABSENT)
        return err_set(err, ERR_MISSING, "the archive has no such member (any more)");
    rc = splitter_new(p->l->msg.shard_ms, p->l->msg.first, sink, &split, err);
    if (rc == 0)
        rc = decode_recording(p, split, &told, err);
    /* Another member of that name may be the one that was enqueued: its decoder looks at all. Not
     * behind a decoder that has begun: the splitter holds audio of that one's sources. */
    if (release_unpacked(p) && rc == ERR_CHANGED && !told)
        rc = decode_recording(p, split, &told, err);
    splitter_free(split);
    return rc;
}

/* A lease of passages: its only shard is there at once. */
static int run_text(const struct pass *p, struct err *err)
{
    struct lease *l = p->l;
    int rc;

    inject_fault(p);
    pthread_mutex_lock(&p->w->lock);
    rc = feed_text(p, err);
    if (rc == 0) {
        l->reached_end = true;
        l->total_samples = l->msg.total_ms * (DECODER_RATE_HZ / 1000);
    }
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

/* Lock held on entry and exit. */
static void run_lease(struct worker *w, struct lease *l)
{
    struct pass p = {w, l};
    struct err e = {0};
    int rc;

    l->running = true;
    pthread_mutex_unlock(&w->lock);
    rc = stage_hears(w->stages[0].name) ? run_pass(&p, &e) : run_text(&p, &e);
    pthread_mutex_lock(&w->lock);
    if (rc != 0 && rc != ERR_EMPTY)
        l->result = e;
    for (uint32_t k = 0; k < w->stage_count; k++)
        feed_stop(w, &l->tracks[k]);
    l->input_over = true;
    worker_changed(w);
    lease_finish(w, l);
}

static struct lease *next_lease(const struct worker *w)
{
    struct lease *l = w->ready ? w->leases : NULL;

    while (l && !(lease_is_waiting(l) && l->from != LEASE_AWAITED))
        l = l->next;
    return l;
}

void *pass_thread(void *arg)
{
    struct worker *w = arg;
    struct lease *l;

    pthread_mutex_lock(&w->lock);
    while (!w->leaving) {
        l = next_lease(w);
        if (unpack_step(w, l))
            continue;
        if (!l)
            unpack_wait(w);
        else if (!(stage_hears(w->stages[0].name) && unpack_awaits(w, l)))
            run_lease(w, l);
    }
    w->threads--;
    pthread_cond_broadcast(&w->over);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
