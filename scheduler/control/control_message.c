#include "scheduler/control/control_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/wire/fields.h"

#define SPEED_MAX UINT64_C(1000000000000) /* times real time; more is no speed */

/* A speed goes as thousandths. */
struct live {
    struct control_live m;
    uint64_t thousandths;
    struct control_device *devices; /* read: its own; written: m.device */
};

static const struct field device_list[] = {
    FIELD_CHARS(control_device, name),
    FIELD_BOOL(control_device, ready),
    FIELD_BOOL(control_device, left),
    FIELD_CHARS(control_device, user),
    FIELD_I64(control_device, percent, -1, 100),
    FIELD_I64(control_device, celsius, -1, 1000),
    FIELD_I64(control_device, milliwatts, -1, INT64_MAX),
    FIELD_I64(control_device, used_bytes, -1, INT64_MAX),
    FIELD_I64(control_device, total_bytes, -1, INT64_MAX),
};

static const struct field live_list[] = {
    FIELD_U32(live, m.pid, 0, UINT32_MAX),
    FIELD_U32(live, m.workers, 0, UINT32_MAX),
    FIELD_U32(live, m.workers_ready, 0, UINT32_MAX),
    FIELD_I64(live, m.started_ms, INT64_MIN, INT64_MAX),
    FIELD_U64(live, m.audio_done_ms, UINT64_MAX),
    FIELD_U64(live, thousandths, SPEED_MAX * 1000),
    FIELD_I64(live, m.low_ms, -1, INT64_MAX),
    FIELD_I64(live, m.high_ms, -1, INT64_MAX),
    FIELD_BOOL(live, m.draining),
    FIELD_CHARS(live, m.note),
    FIELD_CHARS(live, m.hours),
    FIELD_CHARS(live, m.work),
    FIELD_I64(live, m.work_percent, -1, 100),
    FIELD_U32(live, m.work_more, 0, UINT32_MAX),
    FIELD_ARRAY(live, devices, m.devices, CONTROL_DEVICES, device_list),
};

static const struct fields live_fields = FIELDS("status", live, live_list, NULL);

void control_live_put(struct buf *out, const struct control_live *m)
{
    struct live live = {.m = *m};

    live.devices = live.m.device;
    if (m->speed > 0 && m->speed <= (double)SPEED_MAX)
        live.thousandths = (uint64_t)(m->speed * 1000);
    fields_put(out, &live_fields, &live);
}

int control_live_get(const uint8_t *data, size_t len, struct control_live *ret, struct err *err)
{
    struct live live;

    if (fields_get(data, len, &live_fields, &live, err))
        return err_set(err, err->code, "the run's status is not understood");
    *ret = live.m;
    for (uint32_t i = 0; i < ret->devices; i++)
        ret->device[i] = live.devices[i];
    ret->speed = (double)live.thousandths / 1000;
    fields_free(&live_fields, &live);
    return 0;
}

/* What was said of an error; raw bytes, since it may name a file. */
struct said {
    int code;
    const char *text;
};

static const struct field said_list[] = {
    FIELD_CODE(said, code, ERR_LAST, -1),
    FIELD_NAME(said, text, 4096),
};

static const struct fields said_fields = FIELDS("error", said, said_list, NULL);

void control_error_put(struct buf *out, const struct err *e)
{
    const struct said said = {e->code, e->msg};

    fields_put(out, &said_fields, &said);
}

int control_error_get(const uint8_t *data, size_t len, struct err *err)
{
    struct said said;
    char *shown;

    if (fields_get(data, len, &said_fields, &said, err))
        return err_set(err, err->code, "the run's answer is not understood");
    shown = utf8_display(said.text, strlen(said.text));
    err_set(err, shown ? said.code : ERR_NOMEM, "%s", shown ? shown : "no memory for an answer");
    free(shown);
    fields_free(&said_fields, &said);
    return err->code;
}
