#include "tools/export/formats/zip.h"

#include <string.h>

#include <zlib.h>

#define DATE 0x21 /* the first day of 1980, which is the first there is */
#define UTF8_NAMES 0x0800

/* What a member's own head and its entry of the index share. */
static void put_entry(struct buf *out, uint32_t crc, size_t len, size_t name)
{
    buf_put_u16(out, 20); /* version that is needed: 2.0 */
    buf_put_u16(out, UTF8_NAMES);
    buf_put_u16(out, 0); /* stored */
    buf_put_u16(out, 0);
    buf_put_u16(out, DATE);
    buf_put_u32(out, crc);
    buf_put_u32(out, (uint32_t)len);
    buf_put_u32(out, (uint32_t)len);
    buf_put_u16(out, (uint16_t)name);
    buf_put_u16(out, 0);
}

void zip_add(struct zip *z, const char *name, const void *data, size_t len)
{
    size_t at = z->out->len, n = strlen(name);
    uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, len);

    if (len > UINT32_MAX - n - 64 || at > UINT32_MAX - len - n - 64) {
        z->out->failed = true; /* no zip of this kind is so long */
        return;
    }
    buf_put(z->out, "PK\3\4", 4);
    put_entry(z->out, crc, len, n);
    buf_put(z->out, name, n);
    buf_put(z->out, data, len);
    buf_put(&z->index, "PK\1\2", 4);
    buf_put_u16(&z->index, 20);
    put_entry(&z->index, crc, len, n);
    buf_put_u16(&z->index, 0);
    buf_put_u16(&z->index, 0);
    buf_put_u16(&z->index, 0);
    buf_put_u32(&z->index, 0);
    buf_put_u32(&z->index, (uint32_t)at);
    buf_put(&z->index, name, n);
    z->count++;
}

void zip_end(struct zip *z)
{
    size_t at = z->out->len, len = z->index.len;

    if (len > 0)
        buf_put(z->out, z->index.data, len);
    buf_put(z->out, "PK\5\6\0\0\0\0", 8);
    buf_put_u16(z->out, (uint16_t)z->count);
    buf_put_u16(z->out, (uint16_t)z->count);
    buf_put_u32(z->out, (uint32_t)len);
    buf_put_u32(z->out, (uint32_t)at);
    buf_put_u16(z->out, 0);
    z->out->failed |= z->index.failed;
    buf_free(&z->index);
}
