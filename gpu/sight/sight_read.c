/* The parent's part of gpu/sight/sight.h: what a library that nobody here has seen made a process
 * say. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "gpu/sight/sight.h"

#define CELSIUS_MOST 200
#define MILLIWATTS_MOST 10000000 /* 10 kW: more is no card's */
#define BYTES_MOST ((json_int_t)1 << 60)

void gpu_sight_nothing(struct gpu_sight *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->percent = -1;
    ret->celsius = GPU_SIGHT_COLD;
    ret->milliwatts = -1;
}

/* A whole number up to `most`; else what stands for one that is not known. */
static json_int_t number(const json_t *o, const char *key, json_int_t most, json_int_t unknown)
{
    const json_t *v = json_object_get(o, key);
    const json_int_t n = json_integer_value(v);

    return json_is_integer(v) && n >= 0 && n <= most ? n : unknown;
}

static void read_processes(const json_t *list, struct gpu_sight *ret)
{
    for (size_t i = 0; i < json_array_size(list) && i < GPU_SIGHT_PROCESSES; i++) {
        const json_t *o = json_array_get(list, i);
        struct gpu_process *p = &ret->process[ret->process_count];

        p->pid = (uint32_t)number(o, "pid", INT32_MAX, 0);
        p->percent = (int)number(o, "percent", 100, -1);
        p->computes = json_is_true(json_object_get(o, "computes"));
        ret->process_count += p->pid > 0;
    }
}

static void read_gpu(const json_t *o, struct gpu_sight *ret)
{
    const json_t *list = json_object_get(o, "processes");

    gpu_sight_nothing(ret);
    ret->percent = (int)number(o, "percent", 100, -1);
    ret->celsius = (int)number(o, "celsius", CELSIUS_MOST, GPU_SIGHT_COLD);
    ret->milliwatts = number(o, "milliwatts", MILLIWATTS_MOST, -1);
    ret->total_bytes = (uint64_t)number(o, "total", BYTES_MOST, 0);
    ret->used_bytes = (uint64_t)number(o, "used", BYTES_MOST, BYTES_MOST);
    if (ret->used_bytes > ret->total_bytes)
        ret->used_bytes = ret->total_bytes = 0;
    ret->lists = json_is_array(list);
    read_processes(list, ret);
}

static void show(const json_t *text, char *ret, size_t cap)
{
    const char *s = json_string_value(text);
    char *shown = utf8_display(s, strlen(s));

    utf8_copy(ret, cap, shown ? shown : "");
    free(shown);
}

enum gpu_sight_line gpu_sight_read(const char *line, size_t len, struct gpu_sight *ret, size_t n,
                                   char *words, size_t cap)
{
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *error = json_object_get(o, "error"), *gpus = json_object_get(o, "gpus");
    enum gpu_sight_line said = GPU_SIGHT_NONSENSE;

    if (json_is_string(error)) {
        show(error, words, cap);
        said = GPU_SIGHT_ERROR;
    } else if (json_is_string(json_object_get(o, "driver"))) {
        said = GPU_SIGHT_BEGUN;
    } else if (json_is_array(gpus) && json_array_size(gpus) == n) {
        for (size_t i = 0; i < n; i++)
            read_gpu(json_array_get(gpus, i), &ret[i]);
        said = GPU_SIGHT_SEEN;
    }
    json_decref(o);
    return said;
}
