/* The catalog of an archive that is years old, made up, to ask it questions: `bench_store_archive
 * FILE [SEGMENTS [RECORDINGS]]`, some million segments in 20,000 recordings unless said otherwise
 * (two minutes, 457 MiB). Everything goes in by the calls that a run makes: recordings, some of
 * them in archives, with tags; transcripts in three languages, whose words are as frequent as those
 * of natural language (by Zipf's law as Mandelbrot has it, over 30,000 words of each, and every
 * recording says its own ones more often), a tenth of the recordings with a time for each word;
 * speakers, some with names; sounds. Of one seed: the same catalog each time. Not a test:
 * tools/dev/bench/ask_million asks the questions. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/requests/request.h"
#include "store/store.h"
#include "tests/common/random.h"

#define WORDS 30000u
#define LANGUAGES 3u
#define TOPIC 40u /* words that a recording says more often */
#define SHARD_MS 300000
#define IN_A_COMMIT 200 /* recordings */
#define TEXT 512
#define SAID 30 /* words of a segment, at most */
#define SPEAKERS 6u
#define NEVER INT64_C(4102444800000)

static const char *const codes[LANGUAGES] = {"en", "es", "de"};
/* What stands first by frequency; what follows is made of syllables. */
static const char *const common[LANGUAGES][12] = {
    {"the", "of", "and", "to", "a", "in", "that", "it", "is", "was", "I", "for"},
    {"de", "la", "que", "el", "en", "y", "a", "los", "se", "del", "las", "un"},
    {"die", "der", "und", "in", "zu", "den", "das", "nicht", "von", "sie", "ist", "des"}};
static const char *const syllables[LANGUAGES][16] = {
    {"mar", "ket", "har", "bour", "ton", "er", "ing", "strike", "ly", "wa", "fish", "sto", "ne",
     "li", "gh", "ter"},
    {"mer", "ca", "do", "puer", "to", "ción", "lla", "ñe", "ri", "so", "ma", "ra", "es", "ti", "vo",
     "né"},
    {"markt", "ha", "fen", "stadt", "ung", "er", "über", "lich", "ge", "schu", "le", "fisch", "en",
     "brü", "cke", "zeit"}};
static const char *const names[] = {"Ana Lopez", "Marta",    "Ben Okafor", "Dr. Weiss",
                                    "Teresa",    "Jean-Luc", "O'Hara",     "Sanches"};
static const char *const sounds[] = {"Speech", "Music",    "Silence",  "Vehicle",
                                     "Bell",   "Applause", "Laughter", "Water"};
static const char *const reasons[] = {
    "tried again: repetitive", "tried again: unlikely",         "too unlikely", "no speech",
    "impossible pace",         "tried again: repetitive; loop", "odd words"};

static const struct store_stage stages[] = {
    {"transcribe", "base", "/models/base", "aa11", "{\"beam\":1}", NULL},
    {"diarize", "pyannote", "/models/p", "dd44", "{}", NULL},
    {"sounds", "yamnet", "/models/y", "ff66", "{}", NULL}};
#define STAGES (sizeof(stages) / sizeof(stages[0]))

static char *words[LANGUAGES][WORDS];
static double until[WORDS]; /* of the words up to this one, the share of all that is said */

static void stop(const char *why)
{
    fprintf(stderr, "bench_store_archive: %s\n", why);
    exit(1);
}

static void must(int rc, const struct err *err)
{
    if (rc < 0)
        stop(err->msg);
}

/* ---------------------------------------------------------------------------------- language */

static void make_word(uint32_t language, uint32_t rank)
{
    char text[64] = "";
    uint32_t n = rank;

    if (rank < sizeof(common[0]) / sizeof(common[0][0])) {
        words[language][rank] = strdup(common[language][rank]);
        return;
    }
    for (; n > 0; n /= 16)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
                 syllables[language][(n + n / 16 * 5) % 16]);
    words[language][rank] = strdup(text);
}

static void make_language(void)
{
    double sum = 0;

    for (uint32_t i = 0; i < WORDS; i++) {
        sum += 1 / ((double)i + 2.7);
        until[i] = sum;
        for (uint32_t k = 0; k < LANGUAGES; k++)
            make_word(k, i);
    }
    for (uint32_t i = 0; i < WORDS; i++)
        until[i] /= sum;
}

static double unit(uint64_t *seed)
{
    return (double)(random_next(seed) >> 11) / 9007199254740992.0;
}

static uint32_t draw_word(uint64_t *seed)
{
    double at = unit(seed);
    uint32_t low = 0, high = WORDS - 1;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (until[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* -------------------------------------------------------------------------------- recordings */

/* What all stages know of one, by its number. */
struct recording {
    uint64_t seed;
    uint32_t language, segments, speakers, topic[TOPIC];
    bool timed; /* its words have times */
    int64_t length_ms;
};

struct segment {
    int64_t start_ms, end_ms;
    uint32_t words;
};

/* Lengths and pauses alone: the same whoever asks. */
static struct segment next_segment(uint64_t *seed, int64_t after_ms)
{
    uint32_t n = 3 + random_below(seed, SAID / 2) + random_below(seed, SAID / 2 - 2);
    int64_t start = after_ms + 200 + random_below(seed, 2000) +
                    (random_below(seed, 20) == 0 ? random_below(seed, 30000) : 0);

    return (struct segment){start, start + n * 330 + random_below(seed, 900), n};
}

static struct recording recording_of(uint64_t number, double mean)
{
    uint64_t seed = number * 0x9E3779B97F4A7C15u + 1, times;
    struct recording r = {.language = random_below(&seed, 10) < 6 ? 0 : random_below(&seed, 3),
                          .speakers = 1 + random_below(&seed, SPEAKERS),
                          .timed = random_below(&seed, 10) == 0};

    r.segments = 1 + (uint32_t)(-log(1 - unit(&seed)) * mean); /* a few are very long */
    for (uint32_t i = 0; i < TOPIC; i++)
        r.topic[i] = 100 + random_below(&seed, WORDS - 100);
    r.seed = times = random_next(&seed);
    for (uint32_t i = 0; i < r.segments; i++)
        r.length_ms = next_segment(&times, r.length_ms).end_ms;
    r.length_ms += 1000;
    return r;
}

static uint32_t shards_of(const struct recording *r)
{
    return (uint32_t)((r->length_ms + SHARD_MS - 1) / SHARD_MS);
}

static void name_of(uint64_t i, char path[128], char member[64])
{
    bool packed = i % 100 < 5; /* five in a row are in one archive */

    snprintf(path, 128, "/archive/%d/box %02d/%s %05d%s", 1960 + (int)(i / 400 % 60),
             (int)(i / 50 % 8), packed ? "reel" : "tape", (int)(packed ? i / 100 : i),
             packed ? ".zip" : ", side a.wav");
    snprintf(member, 64, "%s", "");
    if (packed)
        snprintf(member, 64, "take %d.mp3", (int)(i % 100));
}

static void add_recordings(struct store *st, int64_t job_id, uint64_t from, uint64_t n)
{
    static struct store_found found[IN_A_COMMIT];
    static char paths[IN_A_COMMIT][128], members[IN_A_COMMIT][64];
    struct request_reply reply = {0};
    struct err err = {0};

    for (uint64_t i = 0; i < n; i++) {
        uint64_t content = (from + i + 1) * 0x9E3779B97F4A7C15u >> 1;

        name_of(from + i, paths[i], members[i]);
        found[i] = (struct store_found){.path = paths[i],
                                        .path_len = strlen(paths[i]),
                                        .member = members[i],
                                        .member_len = strlen(members[i]),
                                        .size_bytes = 1000000 + content % 100000000,
                                        .file_size_bytes = 1000000 + content % 100000000,
                                        .mtime_ns = 1700000000000000000,
                                        .inode = from + i + 5,
                                        .device = 7};
        memcpy(found[i].fingerprint, &content, sizeof(content));
    }
    must(request_apply(st,
                       &(struct request){.type = REQUEST_ENQUEUE_ADD,
                                         .job_id = job_id,
                                         .found = found,
                                         .count = (uint32_t)n},
                       &reply, &err),
         &err);
}

static void enqueue(struct store *st, const struct store_stage *stage, uint64_t recordings)
{
    static const char *const roots[] = {"/archive"};
    const struct request begin = {.type = REQUEST_ENQUEUE_BEGIN,
                                  .command_line = "nightshift enqueue /archive",
                                  .stage = *stage,
                                  .language = "",
                                  .roots = roots,
                                  .root_count = 1};
    struct request_reply reply = {0};
    struct err err = {0};
    int64_t job_id;

    must(request_apply(st, &begin, &reply, &err), &err);
    job_id = reply.job_id;
    for (uint64_t i = 0; i < recordings; i += IN_A_COMMIT)
        add_recordings(st, job_id, i, recordings - i < IN_A_COMMIT ? recordings - i : IN_A_COMMIT);
    must(request_apply(
             st,
             &(struct request){
                 .type = REQUEST_ENQUEUE_END, .job_id = job_id, .roots = roots, .root_count = 1},
             &reply, &err),
         &err);
}

/* ------------------------------------------------------------------------------------ results */

struct transcript { /* of one shard */
    struct result_segment *rows;
    char (*texts)[TEXT];
    struct result_word (*words)[SAID];
    char (*word_texts)[SAID][64];
    size_t count, room;
};

static void *grown(void *list, size_t n, size_t size)
{
    void *ret = realloc(list, n * size);

    if (!ret)
        stop("out of memory");
    return ret;
}

/* What is borrowed of the texts is taken when the shard is whole. */
static void more_room(struct transcript *t)
{
    if (t->count < t->room)
        return;
    t->room = t->room * 2 + 64;
    t->rows = grown(t->rows, t->room, sizeof(*t->rows));
    t->texts = grown(t->texts, t->room, sizeof(*t->texts));
    t->words = grown(t->words, t->room, sizeof(*t->words));
    t->word_texts = grown(t->word_texts, t->room, sizeof(*t->word_texts));
}

static void say(struct transcript *t, const struct recording *r, const struct segment *s,
                uint64_t *seed)
{
    char *text = t->texts[t->count];
    size_t len = 0;

    for (uint32_t i = 0; i < s->words; i++) {
        uint32_t rank =
            random_below(seed, 12) == 0 ? r->topic[random_below(seed, TOPIC)] : draw_word(seed);
        char *word = t->word_texts[t->count][i];
        int64_t step = (s->end_ms - s->start_ms) / s->words;

        snprintf(word, 64, " %s%s", words[r->language][rank], i + 1 == s->words ? "." : "");
        t->words[t->count][i] =
            (struct result_word){.start_ms = s->start_ms + step * i,
                                 .end_ms = s->start_ms + step * i + step,
                                 .probability = 0.3f + 0.7f * (float)unit(seed)};
        len += (size_t)snprintf(text + len, TEXT - len, "%s", word + (i == 0));
        if (len >= TEXT)
            stop("a text is too long");
    }
    text[0] = (char)(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 32 : text[0]);
}

static void add_segment(struct transcript *t, const struct recording *r, const struct segment *s,
                        uint64_t *seed)
{
    uint32_t odd = random_below(seed, 200);
    const char *reason = odd < 8 ? reasons[odd % 7] : "";

    more_room(t);
    say(t, r, s, seed);
    t->rows[t->count++] =
        (struct result_segment){.start_ms = s->start_ms,
                                .end_ms = s->end_ms,
                                .language = codes[r->language],
                                .avg_logprob = -(float)unit(seed) * (*reason ? 1.6f : 0.6f),
                                .no_speech_prob = (float)unit(seed) * (*reason ? 0.9f : 0.2f),
                                .compression_ratio = 1 + (float)unit(seed),
                                .temperature = *reason ? 0.2f : 0,
                                .attempts = *reason ? 2 : 1,
                                .speech_prob = -1,
                                .dropped = odd == 8,
                                .reason = odd == 8 ? "no speech; silence phrase" : reason,
                                .word_count = r->timed ? s->words : 0};
}

static void borrow(struct transcript *t)
{
    for (size_t i = 0; i < t->count; i++) {
        t->rows[i].text = t->texts[i];
        t->rows[i].words = t->rows[i].word_count > 0 ? t->words[i] : NULL;
        for (uint32_t k = 0; k < t->rows[i].word_count; k++)
            t->words[i][k].text = t->word_texts[i][k];
    }
}

static struct store_shard_result shard_of(const struct store_task *task, const struct recording *r,
                                          uint32_t seq)
{
    int64_t end = (int64_t)(seq + 1) * SHARD_MS;

    return (struct store_shard_result){.task_id = task->task_id,
                                       .seq = seq,
                                       .start_ms = (int64_t)seq * SHARD_MS,
                                       .end_ms = end < r->length_ms ? end : r->length_ms,
                                       .language = codes[r->language],
                                       .language_prob = 0.9,
                                       .windows = 10,
                                       .wall_ms = 900,
                                       .device = "cpu"};
}

static void finish_shard(struct store *st, const struct store_task *task, const struct recording *r,
                         uint32_t seq, struct transcript *t)
{
    struct store_shard_result result = shard_of(task, r, seq);
    struct err err = {0};

    borrow(t);
    result.segments = t->rows;
    result.segment_count = t->count;
    must(store_shard_done(st, &result, &err), &err);
    t->count = 0;
}

static void describe(struct store *st, const struct store_task *task, const struct recording *r)
{
    char date[16], title[64];
    const struct result_tag tags[] = {{"container", "title", title, 0, 0},
                                      {"container", "date", date, 0, 0},
                                      {"container", "artist", names[r->seed % 8], 0, 0}};
    struct err err = {0};

    snprintf(date, sizeof(date), "%d", 1960 + (int)(task->media_id / 400 % 60));
    snprintf(title, sizeof(title), "Tape %lld", (long long)task->media_id);
    must(store_media(st, task->media_id,
                     &(struct store_media_info){.duration_ms = r->length_ms,
                                                .sample_rate_hz = 44100,
                                                .channels = 2,
                                                .container = "wav",
                                                .codec = "pcm_s16le",
                                                .tags = tags,
                                                .tag_count = 3},
                     NULL, &err),
         &err);
    must(store_media(st, task->media_id, NULL,
                     &(struct store_media_end){r->length_ms, NULL, "", NULL, NULL, 0}, &err),
         &err);
}

static void transcribe(struct store *st, const struct store_task *task, const struct recording *r)
{
    static struct transcript t; /* its room is kept */
    uint64_t times = r->seed, said = r->seed + 1;
    int64_t after = 0;
    uint32_t seq = 0;

    describe(st, task, r);
    for (uint32_t i = 0; i < r->segments; i++) {
        struct segment s = next_segment(&times, after);

        for (; s.start_ms >= (int64_t)(seq + 1) * SHARD_MS; seq++)
            finish_shard(st, task, r, seq, &t);
        add_segment(&t, r, &s, &said);
        after = s.end_ms;
    }
    for (; seq < shards_of(r); seq++)
        finish_shard(st, task, r, seq, &t);
}

/* One speaks, some segments long, then another. */
static void diarize(struct store *st, const struct store_task *task, const struct recording *r)
{
    static const float voice[2] = {0.6f, 0.8f};
    struct result_turn *turns = grown(NULL, r->segments, sizeof(*turns));
    struct result_speaker speakers[SPEAKERS];
    uint64_t times = r->seed, who = r->seed + 2;
    uint32_t now = 0;
    int64_t after = 0;
    struct err err = {0};

    for (uint32_t i = 0; i < SPEAKERS; i++)
        speakers[i] = (struct result_speaker){60000 * (SPEAKERS - i), voice};
    for (uint32_t i = 0; i < r->segments; i++) {
        struct segment s = next_segment(&times, after);

        if (random_below(&who, 4) == 0)
            now = random_below(&who, r->speakers);
        turns[i] = (struct result_turn){s.start_ms, s.end_ms, now};
        after = s.end_ms;
    }
    for (uint32_t seq = 0; seq < shards_of(r); seq++) {
        struct store_shard_result result = shard_of(task, r, seq);

        must(store_shard_done(st, &result, &err), &err);
    }
    must(store_task_total(st, task->task_id, shards_of(r), &err), &err);
    must(store_finalized(st, task->task_id,
                         &(struct result_people){2, r->speakers, r->segments, speakers, turns},
                         &err),
         &err);
    free(turns);
}

static void listen(struct store *st, const struct store_task *task, const struct recording *r)
{
    uint64_t seed = r->seed + 3;
    struct err err = {0};

    for (uint32_t seq = 0; seq < shards_of(r); seq++) {
        struct store_shard_result result = shard_of(task, r, seq);
        struct result_sound heard[3];

        for (uint32_t i = 0; i < 3; i++) {
            uint32_t rare = 1 + random_below(&seed, 40), id = i == 0 ? 0 : rare < 8 ? rare : 1;
            int64_t at = result.start_ms + i * 20000;

            heard[i] = (struct result_sound){at, at + 15000, id, sounds[id],
                                             0.3f + 0.7f * (float)unit(&seed)};
        }
        result.sounds = heard;
        result.sound_count = 3;
        must(store_shard_done(st, &result, &err), &err);
    }
}

typedef void (*work_fn)(struct store *st, const struct store_task *task, const struct recording *r);

static void work_off(struct store *st, int64_t stage_id, work_fn work, double mean)
{
    struct store_task tasks[IN_A_COMMIT];
    struct err err = {0};
    size_t n = 0;
    int64_t after = 0;

    do {
        must(store_runnable(st, stage_id, after, NEVER, tasks, IN_A_COMMIT, &n, &err), &err);
        must(store_begin(st, &err), &err);
        for (size_t i = 0; i < n; i++) {
            struct recording r = recording_of((uint64_t)tasks[i].media_id, mean);

            work(st, &tasks[i], &r);
            if (work != diarize)
                must(store_task_total(st, tasks[i].task_id, shards_of(&r), &err), &err);
            after = tasks[i].task_id;
            store_task_free(&tasks[i]);
        }
        must(store_commit(st, &err), &err);
    } while (n > 0);
}

/* Every thirty-fifth speaker is known by name. */
static void give_names(struct store *st, uint64_t recordings)
{
    struct request_reply reply;
    struct err err = {0};

    for (uint64_t i = 1; i <= recordings / 10; i++) {
        struct request rq = {.type = REQUEST_NAME_SPEAKER,
                             .speaker_id = (int64_t)(i * 35),
                             .speaker_name = names[i % 8]};
        int rc = request_apply(st, &rq, &reply, &err);

        if (rc < 0 && rc != ERR_MISSING && rc != ERR_INPUT)
            stop(err.msg);
    }
}

static void said(const char *what, int64_t *since)
{
    int64_t now = clock_mono_ms();

    printf("%-12s %7.1f s\n", what, (double)(now - *since) / 1000);
    fflush(stdout);
    *since = now;
}

int main(int argc, char **argv)
{
    static const work_fn work[STAGES] = {transcribe, diarize, listen};
    uint64_t segments = argc > 2 ? strtoull(argv[2], NULL, 10) : 1010000;
    uint64_t recordings = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    int64_t now = clock_mono_ms();
    struct store_totals totals;
    struct store *st = NULL;
    struct err err = {0};

    if (argc < 2 || recordings == 0 || segments / recordings == 0)
        stop("FILE [SEGMENTS [RECORDINGS]]");
    make_language();
    must(store_open(argv[1], STORE_WRITE, &st, &err), &err);
    for (size_t i = 0; i < STAGES; i++)
        enqueue(st, &stages[i], recordings);
    said("enqueue", &now);
    for (size_t i = 0; i < STAGES; i++) {
        work_off(st, (int64_t)i + 1, work[i], (double)segments / (double)recordings);
        said(stages[i].name, &now);
    }
    give_names(st, recordings);
    must(store_totals(st, &totals, &err), &err);
    store_close(st);
    said("names", &now);
    printf("%llu recordings, %llu segments\n", (unsigned long long)totals.recordings,
           (unsigned long long)totals.segments);
    return 0;
}
