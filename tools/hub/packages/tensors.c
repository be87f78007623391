#include "tools/hub/packages/tensors.h"

static uint64_t bytes_of(const struct hub_tensor *t)
{
    uint64_t bytes = 4;

    for (uint32_t i = 0; i < t->rank; i++)
        bytes *= t->dim[i];
    return bytes;
}

static void put_entry(const struct hub_tensor *t, uint64_t at, struct buf *header)
{
    buf_printf(header, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%u", t->name, t->dim[0]);
    for (uint32_t i = 1; i < t->rank; i++)
        buf_printf(header, ",%u", t->dim[i]);
    buf_printf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
               (unsigned long long)(at + bytes_of(t)));
}

/* The length of the header in 8 bytes, the header in JSON, and the values. */
void hub_put_tensors(const struct hub_tensor *tensors, size_t n, struct buf *out)
{
    struct buf header = BUF_INIT;
    uint64_t at = 0;

    buf_printf(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        put_entry(&tensors[i], at, &header);
        at += bytes_of(&tensors[i]);
    }
    buf_printf(&header, "}");
    while (header.len % 8 != 0)
        buf_printf(&header, " ");
    buf_put_u64(out, header.len);
    buf_put(out, header.data, header.len);
    for (size_t i = 0; i < n; i++)
        buf_put(out, tensors[i].data, bytes_of(&tensors[i]));
    out->failed |= header.failed;
    buf_free(&header);
}
