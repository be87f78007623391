#include "tests/unit/media/media_util.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void sh(const char *format, ...)
{
    char command[8192], full[8300];
    va_list args;
    int rc;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    snprintf(full, sizeof(full), "{ %s\n} >>command.log 2>&1 </dev/null", command);
    rc = system(full);
    if (rc != 0)
        print_error("%s -> %d (see command.log)\n", command, rc);
    assert_int_equal(rc, 0);
}

bool have_tools(const char *list)
{
    char command[512];

    snprintf(command, sizeof(command),
             "for t in %s; do command -v $t >/dev/null 2>&1 || exit 1; done", list);
    return system(command) == 0;
}

bool have_file(const char *path) { return access(path, R_OK) == 0; }

static int open_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        print_error("%s: %s\n", path, strerror(errno));
    assert_true(fd >= 0);
    return fd;
}

static void keep_pcm(struct outcome *o, const struct decoder_event *ev, bool discard)
{
    if (o->samples == 0)
        o->first_sample = ev->at_sample;
    if (!discard) {
        const size_t stride = o->info.source_count ? o->info.source_count + 1 : 1;

        o->pcm = realloc(o->pcm, (o->samples + ev->samples) * stride * sizeof(*o->pcm));
        assert_non_null(o->pcm);
        memcpy(o->pcm + o->samples * stride, ev->pcm, ev->samples * stride * sizeof(*o->pcm));
    }
    o->samples += ev->samples;
}

static void keep_entry(struct outcome *o, const struct decoder_entry *e)
{
    struct decoder_entry *kept;

    o->entries = realloc(o->entries, (o->entry_count + 1) * sizeof(*o->entries));
    assert_non_null(o->entries);
    kept = &o->entries[o->entry_count++];
    *kept = *e;
    kept->member = strdup(e->member);
    kept->message = strdup(e->message);
}

static void drop_tags(struct outcome *o)
{
    for (uint32_t i = 0; i < o->info.tag_count; i++) {
        free((void *)(uintptr_t)o->info.tags[i].source);
        free((void *)(uintptr_t)o->info.tags[i].key);
        free((void *)(uintptr_t)o->info.tags[i].value);
    }
    free((void *)(uintptr_t)o->info.tags);
}

static void keep_info(struct outcome *o, const struct decoder_info *info)
{
    struct result_tag *tags = calloc(info->tag_count + 1u, sizeof(*tags));

    assert_non_null(tags);
    if (o->has_info) { /* other tracks than it knew: what is heard stays */
        assert_int_equal(info->source_count, o->info.source_count);
        assert_int_equal(info->channels, o->info.channels);
        assert_false(o->told_again);
        o->told_again = true;
        drop_tags(o);
    }
    o->has_info = true;
    o->info = *info;
    o->info.tags = tags;
    o->info.sources = NULL;
    for (uint32_t i = 0; i < info->source_count; i++)
        snprintf(o->labels[i], sizeof(o->labels[i]), "%s", info->sources[i].label);
    for (uint32_t i = 0; i < info->tag_count; i++) {
        tags[i] = info->tags[i];
        tags[i].source = strdup(info->tags[i].source);
        tags[i].key = strdup(info->tags[i].key);
        tags[i].value = strdup(info->tags[i].value);
    }
}

static struct outcome run(struct decoder *d, bool discard)
{
    struct outcome o = {.first_sample = -1};
    struct decoder_event ev;

    while (o.rc == 0 && !o.has_end) {
        o.rc = decoder_next(d, &ev, &o.err);
        if (o.rc != 0)
            break;
        switch (ev.type) {
        case DECODER_INFO:
            keep_info(&o, &ev.info);
            break;
        case DECODER_PCM:
            assert_false(o.told_again);
            assert_true(o.has_info);
            keep_pcm(&o, &ev, discard);
            break;
        case DECODER_ENTRY:
            keep_entry(&o, &ev.entry);
            break;
        case DECODER_BYTES:
            fail_msg("bytes that nobody asked for");
            break;
        case DECODER_END:
            o.has_end = true;
            o.end = ev.end;
            snprintf(o.damage, sizeof(o.damage), "%s", ev.end.damage);
            o.end.damage = o.damage;
            if (ev.end.channel_count)
                memcpy(o.channels, ev.end.channels, ev.end.channel_count * sizeof(o.channels[0]));
            o.end.channels = NULL; /* the outcome is copied */
            break;
        }
    }
    decoder_close(d);
    return o;
}

struct outcome decode_path(const char *path, const struct ask *ask)
{
    static const struct ask plain;
    struct outcome o = {.first_sample = -1};
    struct decoder *d;
    int fd = open_path(path);

    ask = ask ? ask : &plain;
    o.rc = decoder_start(fd,
                         &(struct decoder_work){.member = ask->member,
                                                .name = path,
                                                .nth = ask->nth,
                                                .skip_samples = ask->skip_samples,
                                                .want_hash = ask->want_hash,
                                                .fingerprint = ask->fingerprint,
                                                .hearing = ask->hearing},
                         &ask->limits, &d, &o.err);
    close(fd);
    return o.rc != 0 ? o : run(d, ask->discard);
}

struct outcome list_path(const char *path, const struct decoder_limits *limits)
{
    struct outcome o = {.first_sample = -1};
    struct decoder *d;
    int fd = open_path(path);

    o.rc = decoder_start_list(fd, limits, &d, &o.err);
    close(fd);
    return o.rc != 0 ? o : run(d, true);
}

void outcome_free(struct outcome *o)
{
    for (size_t i = 0; i < o->entry_count; i++) {
        free((void *)(uintptr_t)o->entries[i].member);
        free((void *)(uintptr_t)o->entries[i].message);
    }
    drop_tags(o);
    free(o->entries);
    free(o->pcm);
    *o = (struct outcome){0};
}

const char *tag_of(const struct outcome *o, const char *source, const char *key)
{
    for (uint32_t i = 0; i < o->info.tag_count; i++)
        if (strcmp(o->info.tags[i].source, source) == 0 &&
            strcasecmp(o->info.tags[i].key, key) == 0)
            return o->info.tags[i].value;
    return NULL;
}

const struct decoder_entry *entry_of(const struct outcome *o, const char *member)
{
    for (size_t i = 0; i < o->entry_count; i++)
        if (strcmp(o->entries[i].member, member) == 0)
            return &o->entries[i];
    return NULL;
}

int64_t sound_of(const struct outcome *o, uint32_t track, uint32_t channel, bool heard)
{
    for (uint32_t i = 0; i < o->end.channel_count; i++) {
        const struct result_channel *c = &o->channels[i];

        if (c->track != track || c->channel != channel)
            continue;
        if (c->heard != heard)
            print_error("track %u channel %u is %s\n", track, channel,
                        heard ? "not heard" : "heard");
        assert_int_equal(c->heard, heard);
        return c->sound_ms;
    }
    print_error("no row of track %u channel %u among %u\n", track, channel, o->end.channel_count);
    fail();
    return 0;
}

void assert_sentence(const struct outcome *o, int code, const char *words)
{
    if (o->rc != code || !strstr(o->err.msg, words)) {
        print_error("wanted %s with \"%s\", got %s: %s (damage: %s)\n", err_name(code), words,
                    err_name(o->rc), o->rc ? o->err.msg : "", o->damage);
    }
    assert_int_equal(o->rc, code);
    assert_non_null(strstr(o->err.msg, words));
    assert_null(strchr(o->err.msg, '\n'));
}

uint8_t *slurp(const char *path, size_t *len)
{
    int fd = open_path(path);
    struct stat st;
    uint8_t *data;
    size_t done = 0;

    assert_int_equal(fstat(fd, &st), 0);
    data = malloc((size_t)st.st_size + 1);
    assert_non_null(data);
    while (done < (size_t)st.st_size) {
        ssize_t got = read(fd, data + done, (size_t)st.st_size - done);

        assert_true(got > 0);
        done += (size_t)got;
    }
    close(fd);
    *len = done;
    return data;
}

static void put32(FILE *f, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        fputc((int)(v >> (8 * i)) & 255, f);
}

static void put16(FILE *f, uint16_t v)
{
    fputc(v & 255, f);
    fputc(v >> 8, f);
}

void write_tone(const char *path, int rate_hz, double seconds)
{
    FILE *f = fopen(path, "wb");
    uint32_t n = (uint32_t)(rate_hz * seconds);

    assert_non_null(f);
    fputs("RIFF", f);
    put32(f, 36 + 2 * n);
    fputs("WAVEfmt ", f);
    put32(f, 16);
    put16(f, 1);
    put16(f, 1);
    put32(f, (uint32_t)rate_hz);
    put32(f, (uint32_t)rate_hz * 2);
    put16(f, 2);
    put16(f, 16);
    fputs("data", f);
    put32(f, 2 * n);
    for (uint32_t i = 0; i < n; i++)
        put16(f, (uint16_t)(int16_t)(8000 * sin(i * 6.283185307 * 440 / rate_hz)));
    assert_int_equal(fclose(f), 0);
}
