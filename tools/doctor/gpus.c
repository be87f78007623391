/* What is known of GPUs, and whether they can be used. */
#include <stdio.h>
#include <string.h>

#include "gpu/precision.h"
#include "tools/doctor/doctor.h"

#define LITTLE_MEMORY 1000000000u
#define GIB 1073741824.0 /* as cards are sold */

/* "fp32, fp16, bf16" */
static void name_precisions(uint32_t set, char *ret, size_t cap)
{
    size_t n = 0;

    ret[0] = 0;
    for (int p = PRECISION_F32; p < PRECISION_COUNT && n < cap; p++)
        if (set & 1u << p)
            n += (size_t)snprintf(ret + n, cap - n, "%s%s", n > 0 ? ", " : "",
                                  precision_name((enum precision)p));
}

static void describe(const struct device *g, char *ret, size_t cap)
{
    char left[32] = "", have[80], version[24] = "", driver[48] = "";

    name_precisions(g->precisions, have, sizeof(have));
    if (g->major > 0)
        snprintf(version, sizeof(version), ", capability %d.%d", g->major, g->minor);
    if (g->driver[0] != 0)
        snprintf(driver, sizeof(driver), ", driver %s", g->driver);
    if (g->memory_free > 0)
        snprintf(left, sizeof(left), ", %.1f GiB free", (double)g->memory_free / GIB);
    snprintf(ret, cap, "%s%s, %.1f GiB%s%s, %s; %s", g->model, version,
             (double)g->memory_total / GIB, left, driver, g->id, have);
}

static void check_gpu(struct doctor *d, const struct device *g)
{
    char text[400];

    describe(g, text, sizeof(text));
    if (g->unusable)
        doctor_finding(d, FINDING_BROKEN, g->label, "a GPU that can be used",
                       "put right what is broken above", "%s", text);
    else if (g->memory_free > 0 && g->memory_free < LITTLE_MEMORY)
        doctor_finding(d, FINDING_WARNING, g->label, "1 GB free, more for larger models",
                       "end the programs that `nvidia-smi` shows on it", "%s", text);
    else
        doctor_finding(d, FINDING_WELL, g->label, NULL, NULL, "%s", text);
}

static void check_none(struct doctor *d, const struct devices *all, bool said)
{
    if (!all->expects_gpu && !said)
        doctor_finding(d, FINDING_WELL, "GPU", NULL, NULL, "none: %s; the processor does the work",
                       all->no_gpu.msg);
    else if (!said)
        doctor_finding(d, FINDING_BROKEN, "GPU", "a GPU that can be used",
                       "`nvidia-smi` should list it: if it does not, install the NVIDIA driver, or "
                       "give it to this container; without it: nightshift run --allow-cpu",
                       "%s", all->no_gpu.msg);
}

void doctor_devices(struct doctor *d, const struct devices *all)
{
    bool broken = false;
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < all->finding_count; i++) {
        const struct device_finding *f = &all->findings[i];

        doctor_finding(d, f->state, f->name, f->wanted, f->todo, "%s", f->found);
        broken |= f->state == FINDING_BROKEN;
    }
    for (uint32_t i = 0; i < all->count; i++)
        if (all->list[i].kind != DEVICE_CPU) {
            check_gpu(d, &all->list[i]);
            gpus++;
        }
    if (gpus == 0)
        check_none(d, all, broken);
}

static json_t *precision_array(uint32_t set)
{
    json_t *ret = json_array();

    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++)
        if (set & 1u << p)
            json_array_append_new(ret, json_string(precision_name((enum precision)p)));
    return ret;
}

json_t *doctor_inventory(const struct devices *all)
{
    json_t *ret = json_array();

    for (uint32_t i = 0; i < all->count; i++) {
        const struct device *v = &all->list[i];
        char capability[16] = "";

        if (v->major > 0)
            snprintf(capability, sizeof(capability), "%d.%d", v->major, v->minor);
        json_array_append_new(
            ret,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:b}", "device", v->label,
                      "name", v->name, "model", v->model, "id", v->id, "capability", capability,
                      "driver", v->driver, "memory_total_bytes", (json_int_t)v->memory_total,
                      "memory_free_bytes", (json_int_t)v->memory_free, "precisions",
                      precision_array(v->precisions), "usable", !v->unusable));
    }
    return ret;
}
