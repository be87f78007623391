/* tools/export/html/assets.h - the files of pages/, compiled in (embed.cmake). */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_ASSETS_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_ASSETS_H

#include <stddef.h>

struct asset {
    const char *name; /* "pages/style.css" */
    const unsigned char *data;
    size_t len;
};
extern const struct asset assets[];
extern const size_t assets_count;

#endif
