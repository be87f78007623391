/* bench_networks: the speed of the networks of speakers, sounds and vectors, as a Markdown table.
 *
 *     bench_networks [-d DEVICE] [-p PRECISION,...] [-n AT_ONCE,...] [-r ROUNDS] [-j THREADS]
 *                    [-q] [NAME...]
 *
 * DEVICE: cpu (the default), or cuda:0 of the module in NIGHTSHIFT_CUDA_MODULE. Weights are random,
 * of the published sizes; -q: small ones, to see that it runs. Precisions that the device does not
 * have are left out, and where a network has no choice only one is what a run takes (fp32, and of
 * ResNet's convolutions fp16 or tf32 where there is any): its row in the others is printed where
 * that is asked for, and says so. AT_ONCE: windows in a call (four times as many patches or texts);
 * of several the fastest is reported. Nothing but the network's own calls is measured, as a stage
 * makes them: what the host does before them (CLAP's three times higher rate, tokens) is in them.
 * Medians of ROUNDS. NAME: only networks whose names begin so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/backend.h"
#include "gpu/peak.h"
#include "tests/gpu/device.h"
#include "tests/gpu/nets.h"
#include "tests/gpu/watch.h"

#define LIST_MAX 16
#define MAX_ROUNDS 101

struct options {
    const char *device;
    bool quick;
    precision_set precisions;
    uint32_t at_once[LIST_MAX], at_once_count;
    uint32_t rounds, threads;
    char **names; /* ends with NULL; none: all */
};

/* Of one network in one precision. */
struct result {
    uint32_t at_once;
    double tokens;                   /* of a text */
    double per_s;                    /* items */
    double per_cpu_s;                /* items for a second of all processors together */
    double device_share;             /* of the time: within the device's operations */
    double gflop;                    /* of an item */
    double gflops_s, gbytes_s, peak; /* while it is within them */
};

static struct backend *be;
static double bandwidth;

static int report_failure(const struct err *err)
{
    fprintf(stderr, "bench_networks: %s\n", err->msg);
    return err_exit_status(err->code);
}

/* ---- options */

static int parse_precisions(struct options *o, char *list, struct err *err)
{
    char *rest = NULL;

    o->precisions = 0;
    for (char *s = strtok_r(list, ",", &rest); s; s = strtok_r(NULL, ",", &rest)) {
        enum precision p;

        if (precision_parse(s, &p, err) != 0)
            return err->code;
        o->precisions |= 1u << p;
    }
    return 0;
}

static int parse_at_once(struct options *o, char *list, struct err *err)
{
    char *rest = NULL;

    o->at_once_count = 0;
    for (char *s = strtok_r(list, ",", &rest); s; s = strtok_r(NULL, ",", &rest)) {
        unsigned long n = strtoul(s, NULL, 10);

        if (o->at_once_count == LIST_MAX || n < 1 || n > 1024)
            return err_set(err, ERR_USAGE, "at most %d numbers from 1 to 1024", LIST_MAX);
        o->at_once[o->at_once_count++] = (uint32_t)n;
    }
    return 0;
}

static int parse_options(struct options *o, int argc, char **argv, struct err *err)
{
    int option, rc = 0;

    *o = (struct options){.device = "cpu", .rounds = 5};
    while (rc == 0 && (option = getopt(argc, argv, "d:p:n:r:j:q")) != -1)
        if (option == 'd')
            o->device = optarg;
        else if (option == 'p')
            rc = parse_precisions(o, optarg, err);
        else if (option == 'n')
            rc = parse_at_once(o, optarg, err);
        else if (option == 'r')
            o->rounds = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'j')
            o->threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'q')
            o->quick = true;
        else
            rc = err_set(err, ERR_USAGE, "an option that does not exist");
    o->names = argv + optind;
    if (rc == 0 && (o->rounds < 1 || o->rounds > MAX_ROUNDS))
        rc = err_set(err, ERR_USAGE, "1 to %d rounds", MAX_ROUNDS);
    return rc;
}

static int open_device(const struct options *o, struct err *err)
{
    if (strcmp(o->device, "cpu") == 0)
        return backend_open_host(o->threads, &be, err);
    if (strncmp(o->device, "cuda:", 5) != 0)
        return err_set(err, ERR_USAGE, "'%.40s' is neither cpu nor cuda:0", o->device);
    setenv("NIGHTSHIFT_TEST_ORDINAL", o->device + 5, 1);
    be = gpu_open(NULL); /* ends the program where there is none */
    return 0;
}

/* What was not asked for. */
static void fill_in(struct options *o)
{
    static const uint32_t wide[] = {8, 32, 128};

    if (o->precisions == 0)
        o->precisions = 1u << PRECISION_F32 | 1u << precision_auto(be->info.have);
    if (o->at_once_count > 0)
        return;
    o->at_once_count = be->info.wide_batches ? 3 : 1;
    memcpy(o->at_once, wide, sizeof(wide));
    if (!be->info.wide_batches)
        o->at_once[0] = 16; /* of voices: a tile */
}

/* ---- measuring */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Of the processors, all of this process's threads together. */
static double cpu_seconds(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct times {
    double wall, cpu; /* seconds */
};

/* All items of m in one call, once. */
static int once(const struct net *net, struct net_model *m, uint32_t n, struct times *times,
                struct err *err)
{
    float *ret = net_memory(n * m->values, sizeof(*ret));
    double cpu = cpu_seconds();
    int64_t start = clock_mono_ns();
    int rc = net->run(m, 0, n, ret, err);

    times->wall = (double)(clock_mono_ns() - start) / 1e9;
    times->cpu = cpu_seconds() - cpu;
    free(ret);
    return rc;
}

static int open_net(const struct net *net, const struct options *o, enum precision p,
                    uint32_t at_once, struct net_model **ret, struct err *err)
{
    const struct net_setup setup = {.published = !o->quick,
                                    .measured = true,
                                    .precision = p,
                                    .items = at_once,
                                    .at_once = at_once};

    return net_open(net, &setup, be, ret, err);
}

/* The first call makes what is made at first use. */
static int try_at_once(const struct net *net, const struct options *o, enum precision p, uint32_t n,
                       double *rate, struct err *err)
{
    struct net_model *m = NULL;
    struct times times = {0};
    int rc = open_net(net, o, p, n, &m, err);

    if (rc != 0)
        return rc;
    rc = once(net, m, n, &times, err);
    if (rc == 0)
        rc = once(net, m, n, &times, err);
    net->close(m);
    *rate = n / times.wall;
    return rc;
}

/* The fastest of the numbers that fit. */
static int climb(const struct net *net, const struct options *o, enum precision p, uint32_t *ret,
                 struct err *err)
{
    uint32_t by = net->seconds >= 1.0 ? 1 : 4;
    double best = 0.0, rate = 0.0;

    *ret = by * o->at_once[0];
    for (uint32_t i = 0; i < o->at_once_count && o->at_once_count > 1; i++) {
        int rc = try_at_once(net, o, p, by * o->at_once[i], &rate, err);

        if (rc == ERR_VRAM && best > 0.0)
            return 0;
        if (rc != 0)
            return rc;
        if (rate > best) {
            best = rate;
            *ret = by * o->at_once[i];
        }
    }
    return 0;
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

/* The rounds, after one that does not count. */
static int rounds(const struct net *net, const struct options *o, struct net_model *m,
                  struct result *r, struct err *err)
{
    double wall[MAX_ROUNDS], cpu[MAX_ROUNDS], device[MAX_ROUNDS], seconds;
    struct watch w = {0};
    struct times times;
    int rc = once(net, m, r->at_once, &times, err);

    watch_take();
    for (uint32_t i = 0; rc == 0 && i < o->rounds; i++) {
        rc = once(net, m, r->at_once, &times, err);
        w = watch_take();
        wall[i] = times.wall;
        cpu[i] = times.cpu;
        device[i] = (double)w.ns / 1e9;
    }
    if (rc != 0)
        return rc;
    seconds = median(device, o->rounds);
    r->per_s = r->at_once / median(wall, o->rounds);
    r->per_cpu_s = r->at_once / median(cpu, o->rounds);
    r->device_share = seconds * r->per_s / r->at_once;
    r->gflop = w.flop / r->at_once / 1e9;
    r->gflops_s = w.flop / seconds / 1e9;
    r->gbytes_s = w.bytes / seconds / 1e9;
    return 0;
}

static int measure_peak(enum precision p, double *ret, struct err *err)
{
    struct peak *peak = NULL;
    int rc = peak_new(be, p, &peak, err);

    if (rc == 0)
        rc = peak_gflops_s(peak, ret, err);
    peak_free(peak);
    return rc;
}

/* Before and after each network, so that other load falls on both; once where nothing is at stake.
 */
static int add_peak(const struct options *o, enum precision p, double *sum, struct err *err)
{
    static double known[PRECISION_COUNT];
    int rc = known[p] > 0.0 && o->quick ? 0 : measure_peak(p, &known[p], err);

    *sum += known[p] / 2.0;
    return rc;
}

static bool taken(const struct net *net, enum precision p)
{
    return net->choice || p == net_takes(net, be);
}

static int measure(const struct net *net, const struct options *o, enum precision p,
                   struct result *r, struct err *err)
{
    struct net_model *m = NULL;
    int rc = climb(net, o, p, &r->at_once, err);

    if (rc == 0)
        rc = add_peak(o, p, &r->peak, err);
    watch_install(be, taken(net, p) || net->narrow ? PRECISION_AUTO : p);
    if (rc == 0)
        rc = open_net(net, o, p, r->at_once, &m, err);
    if (rc == 0) {
        r->tokens = m->item_tokens;
        rc = rounds(net, o, m, r, err);
        net->close(m);
    }
    watch_remove(be);
    return rc == 0 ? add_peak(o, p, &r->peak, err) : rc;
}

/* ---- output */

static void print_head(void)
{
    printf("| network | precision | at once | a second | x real time | of a processor | GFLOP each "
           "| matmul peak | "
           "bandwidth | beside the device |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

static void print_row(const struct net *net, const struct options *o, enum precision p,
                      const struct result *r)
{
    printf("| %s | %s%s | %u | %.2f %s", net_name(net, !o->quick), precision_name(p),
           taken(net, p) ? "" : ", not taken", r->at_once, r->per_s, net->items);
    if (r->tokens > 0.0)
        printf(" of %.0f tokens", r->tokens);
    if (net->seconds > 0.0)
        printf(" | %.1f | %.2f |", r->per_s * net->seconds, r->per_cpu_s * net->seconds);
    else
        printf(" | | %.2f |", r->per_cpu_s);
    printf(" %.2f | %.0f %% of %.3g TFLOP/s | %.0f %% of %.0f GB/s | %.0f %% |\n", r->gflop,
           100.0 * r->gflops_s / r->peak, r->peak / 1e3, 100.0 * r->gbytes_s / bandwidth, bandwidth,
           100.0 * (1.0 - r->device_share));
    fflush(stdout);
}

/* Both networks of diarization, one after the other on one device. p: of ResNet's convolutions. */
static void print_diarization(enum precision p, const struct result *a, const struct result *b)
{
    double both = 1.0 / (1.0 / a->per_s + 1.0 / b->per_s); /* a window of each is a second */
    double device = a->device_share / a->per_s + b->device_share / b->per_s;
    double cpu = 1.0 / (1.0 / a->per_cpu_s + 1.0 / b->per_cpu_s);
    double gflop = a->gflop + b->gflop, peak = (a->peak + b->peak) / 2.0;

    if (a->per_s > 0.0 && b->per_s > 0.0)
        printf(
            "| diarization: both of them | %s%s | | %.2f seconds | %.1f | %.2f | %.2f | %.0f %% of "
            "%.3g TFLOP/s | | %.0f %% |\n",
            precision_name(p), taken(&net_resnet, p) ? "" : ", not taken", both, both, cpu, gflop,
            100.0 * gflop / device / peak, peak / 1e3, 100.0 * (1.0 - device * both));
}

/* Every precision of one network, to ret[precision]. */
static int one(const struct net *net, const struct options *o, struct result *ret, struct err *err)
{
    const struct net_setup setup = {.published = !o->quick};
    int rc = 0;

    net->make(&setup);
    for (int p = PRECISION_F32; rc == 0 && p <= (int)net_last(net); p++) {
        if (!(o->precisions & be->info.have & 1u << p))
            continue;
        rc = measure(net, o, (enum precision)p, &ret[p], err);
        if (rc == 0)
            print_row(net, o, (enum precision)p, &ret[p]);
        if (rc == ERR_VRAM) {
            printf("| %s | %s | | does not fit | | | | | | |\n", net_name(net, !o->quick),
                   precision_name((enum precision)p));
            rc = 0;
        }
    }
    net_clean();
    return rc;
}

/* Is the network in this size, and was it asked for? */
static bool wanted(const struct net *net, const struct options *o)
{
    const char *name = net_name(net, !o->quick);
    bool any = !o->names[0];

    for (char **n = o->names; name && *n; n++)
        any |= strncmp(name, *n, strlen(*n)) == 0;
    return name && any;
}

/* ERR_USAGE: a name with which none of them begins. */
static int check_names(const struct options *o, struct err *err)
{
    char known[300] = "";

    for (char **n = o->names; *n; n++) {
        const struct options alone = {.quick = o->quick, .names = (char *[]){*n, NULL}};
        bool any = false;

        for (size_t i = 0; i < NETS; i++)
            any |= wanted(nets[i], &alone);
        for (size_t i = 0; !any && i < NETS; i++)
            if (net_name(nets[i], !o->quick))
                snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s'%s'",
                         known[0] ? ", " : "", net_name(nets[i], !o->quick));
        if (!any)
            return err_set(err, ERR_USAGE, "no network's name begins with '%.100s': there are %s",
                           *n, known);
    }
    return 0;
}

static int all(const struct options *o, struct err *err)
{
    struct result results[NETS][PRECISION_COUNT] = {0};
    int rc = peak_gbytes_s(be, &bandwidth, err);

    if (rc == 0)
        print_head();
    for (size_t i = 0; rc == 0 && i < NETS; i++) {
        if (!wanted(nets[i], o))
            continue;
        rc = one(nets[i], o, results[i], err);
        if (nets[i] != &net_resnet)
            continue;
        for (int p = PRECISION_F32; rc == 0 && p <= PRECISION_F16; p++)
            print_diarization((enum precision)p, &results[i - 1][PRECISION_F32], &results[i][p]);
    }
    return rc;
}

int main(int argc, char **argv)
{
    char folder[] = "bench-XXXXXX";
    struct options o;
    struct err err;
    int status = 0;

    backend_host_sleep_when_idle(argv);
    if (parse_options(&o, argc, argv, &err) != 0 || check_names(&o, &err) != 0 ||
        open_device(&o, &err) != 0)
        return report_failure(&err);
    fill_in(&o);
    printf("%s (%s)", be->info.name, be->info.features);
    if (be->info.threads)
        printf(", %u threads", be->info.threads);
    printf("\n");
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        err_set(&err, ERR_DENIED, "no folder can be made here");
        status = report_failure(&err);
    } else {
        if (all(&o, &err) != 0)
            status = report_failure(&err);
        net_clean();
        if (chdir("..") != 0 || rmdir(folder) != 0)
            fprintf(stderr, "bench_networks: %s stays behind\n", folder);
    }
    backend_close(be);
    return status;
}
