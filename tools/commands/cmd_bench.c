/* nightshift bench: how fast is this machine, and how near to what it can? */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "gpu/backend.h"
#include "gpu/devices/devices.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/stages/enqueue_stages.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/stage_bench.h"

#define MODELS_MAX 16

struct wanted {
    const char *models[MODELS_MAX];
    uint32_t model_count, threads;
    const char *devices;
    enum allow_cpu allow_cpu;
    struct stage_bench_params params; /* but for what is measured */
    const char *stages[STAGE_COUNT];  /* their models, as of struct enqueue_wish.other */
    struct enqueue_stages found[STAGE_COUNT];
};

static bool any_stage(const struct wanted *w)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (w->stages[i])
            return true;
    return false;
}

static int take_model(void *at, const char *value, struct err *err)
{
    struct wanted *w = at;

    if (w->model_count == MODELS_MAX)
        return err_set(err, ERR_USAGE, "at most %d models at a time", MODELS_MAX);
    w->models[w->model_count++] = value;
    return 0;
}

static void put_models(const struct complete *c, const struct command_option *o)
{
    const char *name;

    (void)o;
    for (uint32_t i = 0; (name = whisper_preset_name(i)); i++)
        complete_put(c, name);
}

static int take_precision(void *at, const char *value, struct err *err)
{
    return precision_parse(value, &((struct wanted *)at)->params.setup.precision, err) == 0
               ? 0
               : err_prefix(err, "--precision");
}

static int take_cache(void *at, const char *value, struct err *err)
{
    return cache_precision_parse(value, &((struct wanted *)at)->params.setup.cache, err) == 0
               ? 0
               : err_prefix(err, "--cache-precision");
}

static int take_stage(void *at, const struct command_given *given, struct err *err)
{
    if (given->value && given->value[0] == 0)
        return err_set(err, ERR_USAGE, "the name or folder of a model is missing behind a '='");
    ((struct wanted *)at)->stages[given->option->stage] = given->value ? given->value : "";
    return 0;
}

/* Stages that are asked for by an option of theirs are measured by it, too. They stand beside each
 * other. */
static void add_stages(struct command_rows *rows, const struct command_option *maker)
{
    (void)maker;
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct command_option row = {.name = stage_kinds[i]->option,
                                           .kind = COMMAND_OWN,
                                           .value = "[=MODEL]",
                                           .help = "",
                                           .stage = i,
                                           .give = take_stage,
                                           .complete = enqueue_stage_values};

        if (stage_kinds[i]->help)
            command_add(rows, &row);
    }
    rows->list[rows->count - 1].help = maker->help;
    rows->list[rows->count - 1].manual = maker->manual;
}

static const struct command_option options[] = {
    {COMMAND_READ("model", 'm', take_model, "NAME",
                  "a Whisper model: nano, tiny, base, small, medium, large-v3, large-v3-turbo, or "
                  "a folder; may be repeated"),
     .complete = put_models},
    {.kind = COMMAND_MADE,
     .make = add_stages,
     .help = "measure these stages instead (with --model: as well); models as for `nightshift "
             "enqueue`",
     .manual = "Measure these stages instead, or with --model as well, as a worker does them, on "
               "sound that is made up. Models as for `nightshift enqueue`."},
    {COMMAND_VALUE(COMMAND_TEXT, "devices", 'd', wanted, devices, "LIST",
                   "measure each of these devices, named as for `nightshift run` (default: every "
                   "GPU, or the processor if there is none)")},
    {COMMAND_CONSTANT("allow-cpu", 0, wanted, allow_cpu, ALLOW_CPU_ALWAYS,
                      "use the processor if no GPU can be used")},
    {COMMAND_READ(
         "precision", 0, take_precision, "P",
         "auto (default), fp32, tf32, fp16, bf16, int16, int8 or fp8: the number type to compute "
         "in, where a stage has a choice"),
     .choices = precision_choices},
    {COMMAND_READ("cache-precision", 0, take_cache, "P",
                  "auto (default), 16 or 8: bits of the decoder's cached keys and values"),
     .choices = cache_precision_choices},
    {COMMAND_VALUE(COMMAND_NUMBER, "threads", 0, wanted, threads, "N",
                   "threads that compute (default: all)"),
     .low = 1, .high = 1024},
    {COMMAND_VALUE(COMMAND_NUMBER, "slots", 0, wanted, params.setup.slots, "N",
                   "windows in work at the same time (default: chosen as by `nightshift run`)"),
     .low = 1, .high = 4096},
    {COMMAND_VALUE(COMMAND_NUMBER, "windows", 0, wanted, params.setup.windows, "N",
                   "windows (with --embed: passages) that a network takes at once (default: chosen "
                   "as by `nightshift run`)"),
     .low = 1, .high = 64},
    {COMMAND_VALUE(COMMAND_NUMBER, "tokens", 0, wanted, params.tokens, "N",
                   "tokens of a window (default: 100)"),
     .low = 1, .high = 440},
    {COMMAND_VALUE(COMMAND_NUMBER, "rounds", 0, wanted, params.rounds, "N",
                   "how often to measure; the median counts (default: 5)"),
     .low = 1, .high = 1000},
    {0},
};

const struct command command_bench = {
    .name = "bench",
    .usage = "[OPTION]...",
    .about =
        "Measure how fast this machine transcribes: windows of 30 s per second, as a multiple of "
        "real time, the time of each step, and the encoder's share of the machine's peak. It also "
        "measures the other stages, with models that are here. Without --model it measures nano, "
        "tiny and base with random weights, which are as fast as real ones.",
    .options = options,
    .json = "as JSON",
    .catalog = "",
    .examples = "bench\n"
                "bench --model large-v3-turbo --rounds 3\n"
                "bench --devices cpu --diarize --sounds=FOLDER",
};

/* ---- transcription, by its models */

static void print_models_head(void)
{
    printf("\n%-20s %9s %7s %8s %8s %7s %7s %7s\n", "", "windows", "x real", "log-mel", "encoder",
           "cross", "step", "encoder");
    printf("%-15s %-4s %9s %7s %8s %8s %7s %7s %7s\n", "model", "type", "a second", "time", "ms",
           "ms", "ms", "ms", "of peak");
}

static void print_model(const char *model, const struct stage_bench_result *r)
{
    const struct stage_bench_networks *n = &r->networks;
    char weights[TEXT_LEN], *name = text_fit(model, 15);

    printf("%-15s %-4s %9.2f %7.0f %8.1f %8.1f %7.1f %7.2f %5.0f %%\n", name ? name : "",
           precision_name(r->precision), r->items_per_second, r->times_real_time, n->mel_ms,
           n->encoder_ms, n->cross_ms, n->step_ms, 100 * n->encoder_share);
    printf("  %u %s, %u %s at once in the encoder, %u %s a window;\n"
           "  weights %s%s;\n"
           "  encoder %.0f of %.0f GFLOP/s; a decoder step reads %.1f GB/s;\n"
           "  times of words %.1f ms a window\n",
           r->slots, text_plural(r->slots, "slot", "slots"), r->at_once,
           text_plural(r->at_once, "window", "windows"), n->tokens,
           text_plural(n->tokens, "token", "tokens"), text_bytes(n->weight_bytes, weights),
           r->cache == CACHE_8 ? ", keys and values of windows in 8 bits" : "", n->encoder_gflops_s,
           n->peak_gflops_s, n->step_gbytes_s, n->align_ms);
    free(name);
}

static json_t *json_model(const char *model, const char *device, const struct stage_bench_result *r)
{
    const struct stage_bench_networks *n = &r->networks;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, "
        "s:f, s:f, s:f}",
        "model", model, "device", device, "precision", precision_name(r->precision),
        "cache_precision", cache_precision_name(r->cache), "slots", (int)r->slots, "windows",
        (int)r->at_once, "tokens", (int)n->tokens, "rounds", (int)r->rounds, "weight_bytes",
        (json_int_t)n->weight_bytes, "slot_bytes", (json_int_t)n->slot_bytes, "load_s", r->load_s,
        "mel_ms", n->mel_ms, "encoder_ms", n->encoder_ms, "cross_ms", n->cross_ms, "step_ms",
        n->step_ms, "step_gbytes_s", n->step_gbytes_s, "encoder_gflop", n->encoder_gflop,
        "encoder_gflops_s", n->encoder_gflops_s, "peak_gflops_s", n->peak_gflops_s, "encoder_share",
        n->encoder_share, "windows_per_second", r->items_per_second, "times_real_time",
        r->times_real_time, "align_ms", n->align_ms);
}

static int bench_models(const struct wanted *w, const char *device, struct backend *be, bool people,
                        json_t *rows, struct err *err)
{
    struct stage_bench_params params = w->params;
    int rc = 0;

    params.setup.name = stage_transcribe.name;
    for (uint32_t i = 0; rc == 0 && i < w->model_count; i++) {
        struct stage_bench_result r;

        params.setup.dir = w->models[i];
        rc = stage_bench_run(be, &params, &r, err);
        if (rc == 0 && people && i == 0)
            print_models_head();
        if (rc == 0 && people)
            print_model(w->models[i], &r);
        if (rc == 0 && json_array_append_new(rows, json_model(w->models[i], device, &r)) != 0)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        fflush(stdout);
    }
    if (rc == 0 && people && w->model_count > 0)
        puts("\nms: of a window, and of a decoder step of all slots. The peak is a product of\n"
             "2048 x 2048 x 2048 in the same precision, measured in turn with the model.");
    return rc;
}

/* ---- the stages beside it */

/* Looks for the models, so that none is missed after an hour. *doing as of enqueue_stages_find. */
static int find_stages(struct wanted *w, char doing[200], struct err *err)
{
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        int rc = w->stages[i] ? enqueue_stages_one(i, w->stages[i], &w->found[i], doing, err) : 0;

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void print_stages_head(void)
{
    printf("\n%-40s %8s %9s %8s %4s %6s\n", "", "x real", "x real", "windows", "at", "voices");
    printf("%-12s %-22s %-4s %8s %9s %8s %4s %6s\n", "stage", "model", "type", "time", "time/CPU",
           "a second", "once", "each");
}

static void print_stages_foot(void)
{
    puts("\nA round is at least a second of sound that is made up, two recordings at once;\n"
         "the median counts. x real time/CPU: for a second of one processor. Voices of\n"
         "a window are what the model heard, and embedding them is most of diarization;\n"
         "its clustering in the end is not measured. embed-text: passages, which count\n"
         "as 15 characters a second of speech.");
}

static void print_stage(const struct store_stage *stage, const struct stage_bench_result *r)
{
    char *name = text_fit(stage->model, 22);

    printf("%-12s %-22s %-4s %8.1f %9.2f %8.1f %4u", stage->name, name ? name : "",
           precision_name(r->precision), r->times_real_time, r->times_real_time_cpu,
           r->items_per_second, r->at_once);
    if (stage_finalizes(stage->name)) /* by the voices */
        printf(" %6.2f", r->vectors_per_item);
    putchar('\n');
    fflush(stdout);
    free(name);
}

static json_t *json_stage(const char *device, const struct store_stage *stage,
                          const struct stage_bench_result *r)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "stage",
                     stage->name, "model", stage->model, "device", device, "precision",
                     precision_name(r->precision), "at_once", (int)r->at_once, "rounds",
                     (int)r->rounds, "load_s", r->load_s, "seconds", r->seconds, "times_real_time",
                     r->times_real_time, "times_real_time_cpu", r->times_real_time_cpu,
                     "items_per_second", r->items_per_second, "vectors_per_item",
                     r->vectors_per_item);
}

static int bench_stages(const struct wanted *w, const char *device, struct backend *be, bool people,
                        json_t *rows, struct err *err)
{
    struct stage_bench_params params = w->params;
    bool headed = false;
    int rc = 0;

    params.setup.slots = 0;
    for (size_t i = 0; rc == 0 && i < STAGE_COUNT; i++) {
        const struct store_stage *stage = &w->found[i].stages[0];
        struct stage_bench_result r;

        if (!w->stages[i])
            continue;
        params.setup.name = stage->name;
        params.setup.dir = stage->model_dir;
        params.setup.params = stage->params_json;
        rc = stage_bench_run(be, &params, &r, err);
        if (rc != 0)
            rc = err_prefix(err, "%s with %.100s", stage->name, stage->model);
        if (rc == 0 && people && !headed)
            print_stages_head();
        if (rc == 0 && people)
            print_stage(stage, &r);
        headed = true;
        if (rc == 0 && json_array_append_new(rows, json_stage(device, stage, &r)) != 0)
            rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0 && headed && people)
        print_stages_foot();
    return rc;
}

/* ---- running */

/* The report as JSON: one list of rows for all devices, each with its device's name. Facts about
 * the device itself are those of the first one. */
struct report {
    bool people;
    json_t *whole, *models, *stages; /* the latter two are the first one's, borrowed */
};

static int report_begin(struct report *r, bool people, struct err *err)
{
    *r = (struct report){people, json_object(), json_array(), json_array()};
    if (!r->whole || json_object_set_new(r->whole, "models", r->models) != 0 ||
        json_object_set_new(r->whole, "stages", r->stages) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    return 0;
}

static void report_device(struct report *r, const struct device *d, const struct backend *be)
{
    json_t *o = json_pack("{s:s, s:i, s:s}", "processor", be->info.name, "threads",
                          (int)be->info.threads, "features", be->info.features);

    json_object_update_missing(r->whole, o);
    json_decref(o);
    if (!r->people)
        return;
    printf("%s: %s", d->label, be->info.name);
    if (be->info.threads)
        printf(", %u thread%s", be->info.threads, be->info.threads == 1 ? "" : "s");
    printf(" (%s)\n", be->info.features);
}

static int bench_device(const struct wanted *w, const struct device *d, struct report *r,
                        struct err *err)
{
    const struct device_options o = {.threads = w->threads};
    struct backend *be = NULL;
    int rc = device_open(d->name, &o, &be, err);

    if (rc == 0) {
        report_device(r, d, be);
        rc = bench_models(w, d->label, be, r->people, r->models, err);
    }
    if (rc == 0)
        rc = bench_stages(w, d->label, be, r->people, r->stages, err);
    backend_close(be);
    return rc;
}

static int find_devices(const struct wanted *w, struct devices *ret, struct err *err)
{
    struct devices *all = malloc(sizeof(*all));
    int rc = 0;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (devices_list_wants_gpus(w->devices))
        rc = devices_find(NULL, all, err);
    else
        devices_processor(all);
    if (rc == 0)
        rc = devices_pick(all, w->devices, w->allow_cpu, ret, err);
    free(all);
    return rc;
}

static int bench_all(const struct cli *cli, const struct wanted *w, struct err *err)
{
    struct devices *devices = malloc(sizeof(*devices));
    struct report r;
    int rc = report_begin(&r, !cli->json, err);

    if (rc == 0 && !devices)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = find_devices(w, devices, err);
    for (uint32_t i = 0; rc == 0 && i < devices->count; i++) {
        if (r.people && i > 0)
            putchar('\n');
        rc = bench_device(w, &devices->list[i], &r, err);
        if (rc != 0 && devices->count > 1)
            err_prefix(err, "%s", devices->list[i].label);
    }
    if (rc == 0 && !r.people) {
        json_dumpf(r.whole, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(r.whole);
    free(devices);
    return rc;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct err err = {0};
    char doing[200] = "";
    int status = command_parse(cli, &command_bench, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli,
                         "unexpected argument '%s'; name a model with --model, or behind a '='",
                         argv[optind]);
    if (w.model_count == 0 && !any_stage(&w)) {
        w.models[w.model_count++] = "nano";
        w.models[w.model_count++] = "tiny";
        w.models[w.model_count++] = "base";
    }
    status = EX_OK;
    if (find_stages(&w, doing, &err) != 0)
        status = cli_fail(doing, &err, NULL);
    else if (bench_all(cli, &w, &err) != 0)
        status = cli_fail("measure", &err, NULL);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        enqueue_stages_free(&w.found[i]);
    return cli_flush(status);
}
