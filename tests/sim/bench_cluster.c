/* A cluster of 1,000 nodes and 10 million hours of audio, with made-up recordings and devices: no
 * media, no models. Prints rows of tab-separated values, of which tools/dev/bench/cluster_scaling
 * makes docs/scaling.svg. By hand:
 *
 *     bench_cluster night [hours [nodes]]      makespans against the lower bound
 *     bench_cluster files RECORDINGS PARTS [SHARDS [SEGMENTS]]    split and merge of real catalogs,
 *                                              in seconds of the processor: so many shards of a
 *                                              recording, so many segments of a shard */
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/parting/parting.h"
#include "tests/common/random.h"
#include "tests/unit/store/fixture.h"
#include "tools/parts/balance.h"

#define SHARD_MS 300000u
#define RATE 100.0      /* times real time, of a node by the mean */
#define START_S 90.0    /* to load a model, and copy a part to and fro */
#define REQUEUE_S 120.0 /* until a task that died runs again */
#define LOST_S 150.0    /* and what of it was not written back, by the mean */
#define LIFE_S 3.6e6    /* between deaths of a node: 1,000 hours */

static double uniform(uint64_t *r)
{
    return ((double)(random_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *r)
{
    double u = uniform(r), v = uniform(r);

    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

/* --------------------------------------------------------------------------------- the night */

/* Most are shorter than the mean of an hour; one in ten thousand is longer than 28. */
static double length_h(uint64_t *r) { return exp(normal(r) * 1.05 - 1.05 * 1.05 / 2); }

struct archive {
    struct balance_recording *known, *guessed;
    uint64_t *true_ms;
    size_t count;
};

static void archive_make(struct archive *a, double hours, uint64_t seed)
{
    double sum = 0;
    size_t cap = (size_t)(hours * 1.1) + 1000;

    a->known = calloc(cap, sizeof(*a->known));
    a->guessed = calloc(cap, sizeof(*a->guessed));
    a->true_ms = calloc(cap, sizeof(*a->true_ms));
    assert_true(a->known && a->guessed && a->true_ms);
    for (a->count = 0; sum < hours && a->count < cap; a->count++) {
        double h = length_h(&seed);
        uint64_t ms = (uint64_t)(h * 3.6e6) + 1000;

        sum += h;
        a->true_ms[a->count] = ms;
        a->known[a->count] = (struct balance_recording){ms, (int64_t)ms, 0, 0};
        /* By the size of the file: bit rates differ by a third. */
        a->guessed[a->count] = (struct balance_recording){
            (uint64_t)((double)ms * exp(normal(&seed) * 0.33)), -1, 0, 0};
    }
}

/* What each part truly takes, in hours of audio. */
static void true_loads(const struct archive *a, const struct balance *b, double *ret)
{
    for (uint32_t i = 0; i < b->parts; i++)
        ret[i] = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct balance_piece *p = &b->pieces[i];
        double of = p->cut ? (double)p->cost_ms : (double)a->true_ms[p->recording];

        ret[p->part] += of / 3.6e6;
    }
}

/* Seconds that a node of this rate needs for a part, with its deaths. */
static double seconds_of(double hours, double rate, uint64_t *r)
{
    double at = START_S + hours * 3600 / rate, life = -log(uniform(r)) * LIFE_S;

    if (life > at)
        return at;
    return at + REQUEUE_S + LOST_S + START_S;
}

struct node {
    double free_at, rate;
};

static void node_sink(struct node *heap, size_t n)
{
    struct node node = heap[0];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= n)
            break;
        if (c + 1 < n && heap[c + 1].free_at < heap[c].free_at)
            c++;
        if (heap[c].free_at >= node.free_at)
            break;
        heap[i] = heap[c];
        i = c;
    }
    heap[i] = node;
}

/* An array job: the next part to the node that is free first. Hours. */
static double night(const double *loads, uint32_t parts, size_t nodes, double spread, double *bound)
{
    struct node *heap = calloc(nodes, sizeof(*heap));
    uint64_t r = 4711;
    double last = 0, rates = 0, hours = 0;

    assert_non_null(heap);
    for (size_t i = 0; i < nodes; i++) {
        heap[i].rate = RATE * exp(normal(&r) * spread - spread * spread / 2);
        rates += heap[i].rate;
    }
    for (uint32_t i = 0; i < parts; i++) {
        heap[0].free_at += seconds_of(loads[i], heap[0].rate, &r);
        hours += loads[i];
        last = heap[0].free_at > last ? heap[0].free_at : last;
        node_sink(heap, nodes);
    }
    free(heap);
    *bound = hours / rates;
    return last / 3600;
}

static void nights(double hours, size_t nodes)
{
    static const double per_node[] = {1, 2, 4, 8, 16, 32, 64};
    struct archive a = {0};

    archive_make(&a, hours, 17);
    printf("# %zu recordings, %.0f h, %zu nodes of %.0f x real time\n", a.count, hours, nodes,
           RATE);
    printf("lengths\tparts\tspread\tmakespan_h\tbound_h\tratio\tcut\tbalance_s\n");
    for (int guessed = 0; guessed < 2; guessed++)
        for (size_t k = 0; k < sizeof(per_node) / sizeof(per_node[0]); k++) {
            struct balance_rule rule = {.parts = (uint32_t)(per_node[k] * (double)nodes),
                                        .shard_ms = SHARD_MS};
            struct balance b;
            struct err e = {0};
            int64_t began = clock_mono_ms();
            double *loads, took;

            assert_ok(balance_make(guessed ? a.guessed : a.known, a.count, &rule, &b, &e), e);
            took = (double)(clock_mono_ms() - began) / 1000;
            loads = calloc(b.parts, sizeof(*loads));
            assert_non_null(loads);
            true_loads(&a, &b, loads);
            for (int s = 0; s < 2; s++) {
                double bound, spread = s ? 0.25 : 0.02, makespan;

                makespan = night(loads, b.parts, nodes, spread, &bound);
                printf("%s\t%u\t%.2f\t%.2f\t%.2f\t%.4f\t%zu\t%.1f\n", guessed ? "guessed" : "known",
                       b.parts, spread, makespan, bound, makespan / bound, b.cut, took);
                fflush(stdout);
            }
            free(loads);
            balance_free(&b);
        }
}

/* --------------------------------------------------------------------------------- the files */

#define TEXT_WORDS 8u
#define VOCABULARY 20000.0
#define TEXT_LEN_MAX 128u

struct shape {
    uint32_t shards, segments; /* of a recording, of a shard */
};

/* Of this process, whoever else works on the machine. */
static int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static double since(int64_t *at)
{
    int64_t now = cpu_ms();
    double ret = (double)(now - *at) / 1000;

    *at = now;
    return ret;
}

static double mib(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (double)info.st_size / 1048576 : 0;
}

static int take(void *arg, const struct parting_work *w, struct err *err)
{
    struct parting_share **at = arg;

    (void)err;
    *(*at)++ = (struct parting_share){.media_id = w->media_id};
    return 0;
}

/* Few words are frequent, most are rare: rank r comes as often as 1 / r. */
static void say(char *ret, uint64_t *r)
{
    size_t n = 0;

    for (uint32_t i = 0; i < TEXT_WORDS; i++) {
        uint32_t rank = (uint32_t)exp(uniform(r) * log(VOCABULARY));

        n += (size_t)snprintf(ret + n, TEXT_LEN_MAX - n, "%s%c%c%c%x", i ? " " : "",
                              'a' + (int)(rank % 23), "aeiou"[rank % 5], 'k' + (int)(rank % 11),
                              rank);
    }
}

static void hear(struct store *st, const struct store_task *t, const struct shape *of, uint64_t *r)
{
    struct result_segment *segments = calloc(of->segments, sizeof(*segments));
    char(*texts)[TEXT_LEN_MAX] = calloc(of->segments, sizeof(*texts));
    int64_t length_ms = 240000;
    struct err e = {0};

    assert_true(segments && texts);
    for (uint32_t k = 0; k < of->shards; k++) {
        const struct store_shard_result result = {.task_id = t->task_id,
                                                  .seq = k,
                                                  .start_ms = k * length_ms,
                                                  .end_ms = (k + 1) * length_ms,
                                                  .language = "en",
                                                  .language_prob = 0.9,
                                                  .windows = 8,
                                                  .wall_ms = 2400,
                                                  .device = "sim",
                                                  .segments = segments,
                                                  .segment_count = of->segments};

        for (uint32_t i = 0; i < of->segments; i++) {
            int64_t from = result.start_ms + i * (length_ms / of->segments);

            say(texts[i], r);
            segments[i] = (struct result_segment){.start_ms = from,
                                                  .end_ms = from + length_ms / of->segments,
                                                  .text = texts[i],
                                                  .language = "en",
                                                  .avg_logprob = -0.2f,
                                                  .no_speech_prob = 0.1f,
                                                  .compression_ratio = 1.5f,
                                                  .attempts = 1,
                                                  .speech_prob = 0.9f,
                                                  .reason = ""};
        }
        assert_ok(store_shard_done(st, &result, &e), e);
    }
    free(segments);
    free(texts);
}

/* As a run would, in one transaction. */
static void work_off(struct store *st, const struct shape *of, uint64_t *r)
{
    struct err e = {0};
    struct store_task t;
    int64_t after = 0;
    size_t n = 1;

    assert_ok(store_begin(st, &e), e);
    while (store_runnable(st, 1, after, INT64_MAX, &t, 1, &n, &e) == 0 && n == 1) {
        const struct store_media_info info = {
            .duration_ms = of->shards * 240000, .container = "wav", .codec = "pcm_s16le"};

        assert_ok(store_media(st, t.media_id, &info, NULL, &e), e);
        hear(st, &t, of, r);
        assert_ok(store_media(st, t.media_id, NULL,
                              &(struct store_media_end){info.duration_ms, NULL, "", NULL}, &e),
                  e);
        assert_ok(store_task_total(st, t.task_id, of->shards, &e), e);
        after = t.task_id;
        store_task_free(&t);
    }
    assert_ok(store_commit(st, &e), e);
}

static void add_all(struct store *st, int64_t job, uint64_t n)
{
    static struct store_found found[REQUEST_MAX_FOUND];
    static char paths[REQUEST_MAX_FOUND][96];

    for (uint64_t i = 0; i < n;) {
        uint32_t k = 0;

        for (; k < REQUEST_MAX_FOUND && i < n; k++, i++) {
            snprintf(paths[k], sizeof(paths[k]), "/archive/collection %04d/recording %07d.wav",
                     (int)(i / 1000), (int)i);
            found[k] = found_at(paths[k], "", i * 0x9E3779B97F4A7C15u >> 1);
            found[k].size_bytes = 4000 + i % 1000;
        }
        job_add(st, job, found, k);
    }
}

static void part_path(char *ret, size_t cap, uint32_t i, const char *what)
{
    snprintf(ret, cap, "bench-part-%04u%s.db", i, what);
}

static void files(uint64_t n, uint32_t parts, const struct shape *of)
{
    struct parting_share *shares = calloc(n, sizeof(*shares)), *end = shares;
    struct store *st = catalog_new(), *part;
    int64_t job = job_begin(st, &stage_nano), at;
    double split = 0, merged = 0, again = 0, size = 0, full = 0;
    uint64_t segments = 0, r = 4711;
    uint32_t ms;
    char path[64], whole[64];
    struct err e = {0};

    assert_non_null(shares);
    add_all(st, job, n);
    job_end(st, job, "/archive");
    assert_ok(store_shard_length(st, 0, SHARD_MS, &ms, &e), e);
    at = cpu_ms();
    assert_ok(parting_work_each(st, take, &end, &e), e);
    for (uint32_t i = 0; i < parts; i++) {
        size_t from = n * i / parts, to = n * (i + 1) / parts;
        const struct parting_part p = {"00112233445566778899aabbccddeeff", i, parts, shares + from,
                                       to - from};

        part_path(path, sizeof(path), i, "-work");
        part_path(whole, sizeof(whole), i, "");
        unlink(path);
        unlink(whole);
        assert_ok(store_open(path, STORE_WRITE, &part, &e), e);
        assert_ok(parting_write(st, part, &p, &e), e);
        assert_ok(parting_snapshot(part, whole, &e), e);
        split += since(&at);
        size += mib(whole);
        unlink(whole);
        work_off(part, of, &r);
        assert_ok(parting_snapshot(part, whole, &e), e);
        full += mib(whole);
        store_close(part);
        unlink(path);
        since(&at);
    }
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t i = 0; i < parts; i++) {
            struct parting_merged m;

            part_path(whole, sizeof(whole), i, "");
            assert_ok(store_open(whole, STORE_READ, &part, &e), e);
            at = cpu_ms();
            assert_ok(parting_merge(st, part, &m, &e), e);
            *(twice ? &again : &merged) += since(&at);
            segments += m.segments;
            store_close(part);
            if (twice)
                unlink(whole);
        }
    assert_int_equal(segments, n * of->shards * of->segments);
    printf("recordings\tparts\tsegments\tsplit_s\tempty_mib\tfull_mib\tmerge_s\tagain_s\n");
    printf("%llu\t%u\t%llu\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\n", (unsigned long long)n, parts,
           (unsigned long long)segments, split, size, full, merged, again);
    free(shares);
    store_close(st);
}

static uint32_t given(int argc, char **argv, int i, uint32_t otherwise)
{
    uint32_t n = argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : 0;

    return n ? n : otherwise;
}

int main(int argc, char **argv)
{
    const struct shape of = {given(argc, argv, 4, 1), given(argc, argv, 5, 12)};

    if (argc > 3 && strcmp(argv[1], "files") == 0)
        files(strtoull(argv[2], NULL, 10), given(argc, argv, 3, 1), &of);
    else if (argc > 1 && strcmp(argv[1], "night") == 0)
        nights(argc > 2 ? strtod(argv[2], NULL) : 1e7, given(argc, argv, 3, 1000));
    else
        return 64;
    return 0;
}
