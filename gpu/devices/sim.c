/* A simulated device is the host's backend with another table: some operations look at the control
 * file first, or take longer. The table lies in struct sim, which is found by it. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/backend.h"
#include "gpu/precision.h"
#include "gpu/devices/sim.h"

#define ENTRY_MAX 48u /* bytes of one entry: it becomes the device's id */
#define SIZE_MAX_BYTES (UINT64_C(1) << 50)
#define SPEED_MIN 0.001
#define LOOK_NS INT64_C(10000000) /* between two looks at the control file */
#define SLEEP_NS INT64_C(1000000) /* shorter waits are saved up */

/* ---------------------------------------------------------------------------------- the list */

static int reject_sim_entry(const char *entry, size_t len, const char *why, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "NIGHTSHIFT_DEVICES: '%.*s' is not sim:SIZE[*SPEED] such as sim:24GiB or "
                   "sim:8GiB*0.5: %s",
                   (int)(len < ENTRY_MAX ? len : ENTRY_MAX), entry, why);
}

/* Bytes at *p, which moves behind them. 0: not a size, or out of bounds. */
static uint64_t take_size(const char **p)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    uint64_t n = 0;

    if (**p < '0' || **p > '9')
        return 0;
    while (**p >= '0' && **p <= '9') {
        n = n * 10 + (uint64_t)(*(*p)++ - '0');
        if (n > SIZE_MAX_BYTES)
            return 0;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strncmp(*p, units[i].unit, 3) == 0) {
            *p += 3;
            return n > SIZE_MAX_BYTES >> units[i].shift ? 0 : n << units[i].shift;
        }
    return n;
}

/* A decimal number, whatever the locale; 0: none, or out of bounds. */
static double take_speed(const char **p)
{
    double v = 0, place = 1;
    int digits = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++, digits++)
        v = v * 10 + (**p - '0');
    if (**p == '.')
        for ((*p)++; **p >= '0' && **p <= '9'; (*p)++, digits++)
            v += (**p - '0') * (place /= 10);
    return digits && v >= SPEED_MIN && v <= 1 ? v : 0;
}

static int parse_entry(const char *entry, size_t len, uint32_t index, struct device *ret,
                       struct err *err)
{
    struct backend_info host;
    struct device d = {.kind = DEVICE_SIM, .speed = 1};
    char text[ENTRY_MAX + 1];
    const char *p = text + 4;

    if (len > ENTRY_MAX || len < 4 || memcmp(entry, "sim:", 4) != 0)
        return reject_sim_entry(entry, len,
                                len > ENTRY_MAX ? "it is too long" : "it does not begin so", err);
    memcpy(text, entry, len);
    text[len] = 0;
    d.memory_total = d.memory_free = take_size(&p);
    if (d.memory_total == 0)
        return reject_sim_entry(entry, len, "the size is a whole number of bytes, KiB, MiB or GiB",
                                err);
    if (*p == '*') {
        p++;
        d.speed = take_speed(&p);
        if (d.speed == 0)
            return reject_sim_entry(entry, len, "the speed is between 0.001 and 1", err);
    }
    if (*p)
        return reject_sim_entry(entry, len, "something else follows", err);
    backend_host_info(&host);
    d.precisions = host.have;
    snprintf(d.name, sizeof(d.name), "sim:%u", index);
    snprintf(d.label, sizeof(d.label), "sim:%u", index);
    snprintf(d.model, sizeof(d.model), "simulated, %.*s", (int)strcspn(text + 4, "*"), text + 4);
    snprintf(d.id, sizeof(d.id), "%s", text);
    *ret = d;
    return 0;
}

int sim_devices_parse(const char *spec, struct device *ret, uint32_t cap, uint32_t *n,
                      struct err *err)
{
    uint32_t count = 0;

    for (;;) {
        size_t len = strcspn(spec, ",");

        if (count == cap)
            return err_set(err, ERR_USAGE, "NIGHTSHIFT_DEVICES: more than %u devices", cap);
        if (parse_entry(spec, len, count, &ret[count], err) != 0)
            return err->code;
        count++;
        if (!spec[len])
            break;
        spec += len + 1;
    }
    *n = count;
    return 0;
}

/* ------------------------------------------------------------------------------- the control */

enum command { CONTROL_OK, CONTROL_OOM, CONTROL_HANG, CONTROL_DIE, CONTROL_DIE_ONCE, CONTROL_GONE };

struct sim {
    struct backend_ops ops;         /* first: what the backend's `ops` points to */
    const struct backend_ops *host; /* what it pointed to before */
    double speed;
    int64_t owed_ns;        /* of waiting */
    char control[PATH_MAX]; /* "": nobody commands it */
    int64_t looked_ns;
    enum command command;
    uint32_t count; /* its number; 0: it has none */
    uint32_t left;  /* failures that are still to come, or encoder runs before it hangs */
    bool works;     /* a window with sound in it has come: what ran before was a model's warm-up */
};

static struct sim *sim_of(const struct backend *be) { return (struct sim *)be->ops; }

static enum command read_command(const struct sim *s, uint32_t *count)
{
    char text[64] = "";
    int fd = open(s->control, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\r\n")] = 0;
    *count = 0;
    if (sscanf(text, "oom %u", count) == 1 && *count > 0)
        return CONTROL_OOM;
    if (strcmp(text, "hang") == 0 || sscanf(text, "hang in %u", count) == 1)
        return CONTROL_HANG;
    if (strcmp(text, "die") == 0)
        return CONTROL_DIE;
    if (strcmp(text, "die once") == 0)
        return CONTROL_DIE_ONCE;
    return strcmp(text, "gone") == 0 ? CONTROL_GONE : CONTROL_OK;
}

/* Reads the file's present command. A command that it already had goes on counting. */
static void reread_sim_command(struct sim *s)
{
    uint32_t count;
    enum command now = read_command(s, &count);

    s->looked_ns = clock_mono_ns();
    if (now == s->command && count == s->count)
        return;
    s->command = now;
    s->count = s->left = count;
}

static void sleep_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    nanosleep(&t, NULL);
}

/* Does what is commanded; ERR_DEVICE when the device is gone. It hangs in its work alone: opening
 * it and loading a model, which warms up on a window of silence, go on. */
static int obey_sim_command(struct sim *s, bool working, struct err *err)
{
    if (!s->control[0])
        return 0;
    if (s->command == CONTROL_GONE)
        return err_set(err, ERR_DEVICE, "the device is not there any more");
    if (clock_mono_ns() - s->looked_ns >= LOOK_NS)
        reread_sim_command(s);
    while (working && s->works && s->command == CONTROL_HANG && s->left == 0) {
        sleep_ns(LOOK_NS);
        reread_sim_command(s);
    }
    if (s->command == CONTROL_DIE_ONCE)
        unlink(s->control);
    if (s->command == CONTROL_DIE || s->command == CONTROL_DIE_ONCE)
        raise(SIGKILL);
    if (s->command == CONTROL_GONE)
        return err_set(err, ERR_DEVICE, "the device is not there any more");
    return 0;
}

/* One failure for lack of memory, when some were commanded. */
static int fail_memory(struct sim *s, struct err *err)
{
    if (s->command != CONTROL_OOM)
        return 0;
    s->left--;
    if (s->left == 0) {
        unlink(s->control);
        s->command = CONTROL_OK;
        s->count = 0;
    }
    return err_set(err, ERR_VRAM, "out of device memory (simulated)");
}

/* ---------------------------------------------------------------------------- the operations */

/* After an operation that took so long on the host. */
static void slow_down(struct sim *s, int64_t began_ns)
{
    if (s->speed >= 1)
        return;
    s->owed_ns += (int64_t)((double)(clock_mono_ns() - began_ns) * (1 / s->speed - 1));
    if (s->owed_ns < SLEEP_NS)
        return;
    sleep_ns(s->owed_ns);
    s->owed_ns = 0;
}

static void sim_close(struct backend *be)
{
    struct sim *s = sim_of(be);

    be->ops = s->host;
    s->host->close(be);
    free(s);
}

static int sim_alloc(struct backend *be, size_t bytes, void **ret, struct err *err)
{
    struct sim *s = sim_of(be);
    int rc = obey_sim_command(s, false, err);

    if (rc == 0)
        rc = fail_memory(s, err);
    return rc ? rc : s->host->alloc(be, bytes, ret, err);
}

static int sim_sync(struct backend *be, struct err *err)
{
    int rc = obey_sim_command(sim_of(be), false, err);

    return rc ? rc : sim_of(be)->host->sync(be, err);
}

/* Runs an operation of the host as slowly as the device would. */
#define SLOWLY(call)                                   \
    do {                                               \
        struct sim *sim = sim_of(be);                  \
        int64_t began;                                 \
        int status = obey_sim_command(sim, true, err); \
                                                       \
        if (status != 0)                               \
            return status;                             \
        began = clock_mono_ns();                       \
        status = sim->host->call;                      \
        slow_down(sim, began);                         \
        return status;                                 \
    } while (0)

static int sim_linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                      struct tensor y, struct err *err)
{
    SLOWLY(linear(be, l, x, epilogue, y, err));
}

static int sim_conv2d(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                      uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                      struct err *err)
{
    SLOWLY(conv2d(be, c, images, height, width, x, epilogue, y, err));
}

static int sim_attention_spans(struct backend *be, struct spans spans, uint32_t heads,
                               uint32_t head_size, float scale, struct tensor q, struct tensor k,
                               struct tensor v, const struct attention_bias *bias,
                               struct tensor out, struct err *err)
{
    SLOWLY(attention_spans(be, spans, heads, head_size, scale, q, k, v, bias, out, err));
}

static int sim_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                         struct tensor v, struct tensor out, struct err *err)
{
    SLOWLY(attention(be, windows, q, k, v, out, err));
}

static int sim_attention_tail(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                              struct key_tail tail, struct tensor out, struct err *err)
{
    SLOWLY(attention_tail(be, q, k, v, tail, out, err));
}

static int sim_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                              const struct token_row *rows, uint32_t keys, struct tensor out,
                              struct err *err)
{
    SLOWLY(attention_rows(be, q, kv, rows, keys, out, err));
}

/* The encoder's first operation: here it is that its memory does not suffice. */
static int sim_mel(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
                   struct tensor out, struct err *err)
{
    struct sim *s = sim_of(be);
    int rc;

    for (uint32_t i = 0; i < windows; i++)
        s->works |= audio[i].n > 1;
    if (s->works && s->command == CONTROL_HANG && s->left > 0)
        s->left--;
    rc = obey_sim_command(s, true, err);
    if (rc == 0)
        rc = fail_memory(s, err);
    if (rc != 0)
        return rc;
    SLOWLY(mel(be, m, audio, windows, out, err));
}

/* ------------------------------------------------------------------------------------ opening */

static int find_entry(const char *name, struct device *ret, struct err *err)
{
    const char *spec = getenv("NIGHTSHIFT_DEVICES");
    struct device *all = calloc(DEVICES_MAX, sizeof(*all));
    uint32_t n = 0;
    int rc;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory for the simulated devices");
    rc = sim_devices_parse(spec ? spec : "", all, DEVICES_MAX, &n, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (strcmp(all[i].name, name) == 0) {
            *ret = all[i];
            free(all);
            return 0;
        }
    free(all);
    return rc ? rc : err_set(err, ERR_USAGE, "there is no device '%.60s'", name);
}

static int control_path(const struct device *d, struct sim *s, struct err *err)
{
    const char *folder = getenv("NIGHTSHIFT_SIM_CONTROL");
    int n;

    if (!folder || !folder[0])
        return 0;
    n = snprintf(s->control, sizeof(s->control), "%s/sim-%s", folder, d->name + 4);
    if (n < 0 || (size_t)n >= sizeof(s->control))
        return err_set(err, ERR_USAGE, "NIGHTSHIFT_SIM_CONTROL is too long");
    return obey_sim_command(s, false, err);
}

/* The host's backend becomes the device's. */
static void install_sim_backend(struct backend *be, struct sim *s, const struct device *d,
                                const struct device_options *o)
{
    s->host = be->ops;
    s->ops = *be->ops;
    s->ops.close = sim_close;
    s->ops.alloc = sim_alloc;
    s->ops.sync = sim_sync;
    s->ops.linear = sim_linear;
    s->ops.conv2d = sim_conv2d;
    s->ops.attention_spans = sim_attention_spans;
    s->ops.attention = sim_attention;
    s->ops.attention_tail = sim_attention_tail;
    s->ops.attention_rows = sim_attention_rows;
    s->ops.mel = sim_mel;
    be->ops = &s->ops;
    be->budget = device_budget(d->memory_free, o->cap);
    be->info.memory_total = d->memory_total;
    be->info.memory_free = d->memory_free;
    snprintf(be->info.name, sizeof(be->info.name), "%s", d->model);
    snprintf(be->info.id, sizeof(be->info.id), "%s", d->id);
}

int backend_open_sim(const char *name, const struct device_options *o, struct backend **ret,
                     struct err *err)
{
    struct sim *s = calloc(1, sizeof(*s));
    struct backend *be = NULL;
    struct device d;
    int rc;

    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory for a simulated device");
    rc = find_entry(name, &d, err);
    if (rc == 0)
        rc = control_path(&d, s, err);
    if (rc == 0)
        rc = backend_open_host(o->threads, &be, err);
    if (rc != 0) {
        free(s);
        return rc;
    }
    s->speed = d.speed;
    install_sim_backend(be, s, &d, o);
    *ret = be;
    return 0;
}
