#include "tests/common/zip_writer.h"

#include <string.h>

static void put_header(struct buf *b, bool central, const struct zip_member *m, uint32_t at)
{
    buf_put_u32(b, central ? 0x02014b50u : 0x04034b50u);
    if (central)
        buf_put_u16(b, 20);
    for (int i = 0; i < 5; i++) /* version, flags, method, time, date */
        buf_put_u16(b, 0);
    buf_put_u32(b, 0); /* checksum */
    buf_put_u32(b, (uint32_t)m->len);
    buf_put_u32(b, (uint32_t)m->len);
    buf_put_u16(b, (uint16_t)strlen(m->name));
    buf_put_u16(b, 0);
    for (int i = 0; central && i < 5; i++) /* comment, disk, attributes */
        buf_put_u16(b, 0);
    if (central)
        buf_put_u32(b, at);
    buf_put(b, m->name, strlen(m->name));
}

void zip_write(struct buf *b, const struct zip_member *members, uint16_t count)
{
    uint32_t start, bytes, at = 0;

    for (uint16_t i = 0; i < count; i++) {
        put_header(b, false, &members[i], 0);
        buf_put(b, members[i].data, members[i].len);
    }
    start = (uint32_t)b->len;
    for (uint16_t i = 0; i < count; i++) {
        put_header(b, true, &members[i], at);
        at += 30 + (uint32_t)(strlen(members[i].name) + members[i].len);
    }
    bytes = (uint32_t)b->len - start;
    buf_put_u32(b, 0x06054b50u);
    buf_put_u32(b, 0); /* disks */
    buf_put_u16(b, count);
    buf_put_u16(b, count);
    buf_put_u32(b, bytes);
    buf_put_u32(b, start);
    buf_put_u16(b, 0);
}
