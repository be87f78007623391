/* Sounds among cues: where they are put, against a search through all cues for each. */
#include "tests/common/nomem.h"
#include "tests/common/test.h"

#include "tools/export/subtitles/sounds.h"

#define MOST 400

static const struct subtitle_limits limits = {42, 2, 20, 833, 7000, 83};
static const char *const names[] = {
    "Bell",   "Dog",  "Rain",
    "Speech", "Door", "A sound whose name is wider than a line of subtitles is"};

struct made {
    struct subtitle cues[MOST];
    struct document_sound sounds[MOST];
    struct document d;
    size_t cue_count;
};

static void make(unsigned seed, struct made *m)
{
    int64_t at = 0;

    m->cue_count = rand_r(&seed) % 60;
    for (size_t i = 0; i < m->cue_count; i++) {
        at += 83 + (rand_r(&seed) % 3 ? 0 : rand_r(&seed) % 5000);
        m->cues[i] = (struct subtitle){.start_ms = at, .end_ms = at + 833 + rand_r(&seed) % 5000};
        at = m->cues[i].end_ms;
    }
    m->d = (struct document){.sounds = m->sounds, .sound_count = rand_r(&seed) % 120};
    for (size_t i = 0; i < m->d.sound_count; i++) {
        const int64_t from = (int64_t)(rand_r(&seed) % 200000) - 100;

        m->sounds[i] =
            (struct document_sound){from, from + rand_r(&seed) % (rand_r(&seed) % 4 ? 4000 : 90000),
                                    names[rand_r(&seed) % (sizeof(names) / sizeof(names[0]))], 0.5};
    }
}

/* The first stretch of [from, to) that touches none of the cues. */
static bool is_free(const struct subtitle *cues, size_t count, int64_t *from, int64_t *to)
{
    int64_t at = *from < 0 ? 0 : *from;

    for (size_t i = 0; i < count && at + limits.min_ms <= *to; i++) {
        if (cues[i].end_ms + limits.gap_ms <= at)
            continue;
        if (cues[i].start_ms - limits.gap_ms - at >= limits.min_ms) {
            *to = *to < cues[i].start_ms - limits.gap_ms ? *to : cues[i].start_ms - limits.gap_ms;
            break;
        }
        at = cues[i].end_ms + limits.gap_ms;
    }
    *from = at;
    return at + limits.min_ms <= *to;
}

static size_t expect(const struct made *m, struct subtitle *all)
{
    size_t count = m->cue_count, order[MOST];

    memcpy(all, m->cues, count * sizeof(*all));
    for (size_t i = 0; i < m->d.sound_count; i++) {
        size_t at = i;

        for (; at > 0 && m->sounds[order[at - 1]].start_ms > m->sounds[i].start_ms; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (size_t i = 0; i < m->d.sound_count; i++) {
        const struct document_sound *s = &m->sounds[order[i]];
        int64_t from = s->start_ms, to = s->end_ms;
        bool told = strcmp(s->name, "Speech") == 0 || strlen(s->name) > 40;
        size_t at = count;

        for (size_t k = 0; k < count; k++)
            told |= all[k].sound && strcmp(all[k].sound, s->name) == 0 &&
                    all[k].start_ms > s->start_ms - 10000 && all[k].start_ms < s->end_ms + 10000;
        if (told || !is_free(all, count, &from, &to))
            continue;
        for (; at > 0 && all[at - 1].start_ms > from; at--)
            all[at] = all[at - 1];
        all[at] = (struct subtitle){.start_ms = from,
                                    .end_ms = to - from > limits.max_ms ? from + limits.max_ms : to,
                                    .sound = s->name};
        count++;
    }
    return count;
}

static struct subtitles copy_of(const struct subtitle *cues, size_t count)
{
    struct subtitles s = {.list = calloc(count + 1, sizeof(*s.list)), .count = count};

    assert_non_null(s.list);
    if (count > 0)
        memcpy(s.list, cues, count * sizeof(*cues));
    return s;
}

TEST(as_a_search_through_all)
{
    static struct made m;
    static struct subtitle all[2 * MOST];
    struct err err = {0};
    size_t told = 0;

    for (unsigned seed = 1; seed <= 2000; seed++) {
        struct subtitles s;
        size_t count;

        make(seed, &m);
        count = expect(&m, all);
        told += count - m.cue_count;
        s = copy_of(m.cues, m.cue_count);
        assert_ok(sounds_put(&m.d, &limits, &s, &err), err);
        assert_int_equal(s.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(s.list[i].start_ms, all[i].start_ms);
            assert_int_equal(s.list[i].end_ms, all[i].end_ms);
            assert_ptr_equal(s.list[i].sound, all[i].sound);
        }
        subtitles_free(&s);
    }
    assert_true(told > 2000);
}

/* A day of rain on a street: as much work as there are sounds. Each against each would be minutes.
 */
TEST(a_hundred_thousand)
{
    enum { MANY = 100000 };
    static struct document_sound sounds[MANY];
    const struct document d = {.sounds = sounds, .sound_count = MANY};
    struct subtitles s = {0};
    struct err err = {0};

    for (int64_t i = 0; i < MANY; i++)
        sounds[i] = (struct document_sound){i * 864, i * 864 + 960, names[i % 3], 0.5};
    s = copy_of(NULL, 0);
    assert_ok(sounds_put(&d, &limits, &s, &err), err);
    assert_in_range(s.count, 20000,
                    30000); /* three names, each once in ten seconds or a bit more */
    for (size_t i = 1; i < s.count; i++)
        assert_true(s.list[i].start_ms >= s.list[i - 1].end_ms + limits.gap_ms);
    subtitles_free(&s);
}

static int put_one(void *arg, struct err *err)
{
    const struct document_sound sound = {0, 2000, "Bell", 0.5};
    const struct document d = {.sounds = &sound, .sound_count = 1};
    struct subtitles s = {0};
    int rc = sounds_put(&d, &limits, &s, err);

    (void)arg;
    subtitles_free(&s);
    return rc;
}

TEST(without_memory) { assert_true(nomem_each(put_one, NULL) >= 4); }

TEST_MAIN(NULL, NULL)
