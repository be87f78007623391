#include "workers/models/clap/clap_maps.h"

#include <stdbool.h>
#include <stddef.h>

#define APART (-100.0f)

struct patch {
    uint32_t y, x;
};

static struct patch patch_at(struct clap_order o, uint32_t place)
{
    uint32_t each = o.window * o.window, side = o.grid / o.window;
    uint32_t w = place / each, within = place % each;
    uint32_t y = w / side * o.window + within / o.window;
    uint32_t x = w % side * o.window + within % o.window;

    return (struct patch){(y + o.shift) % o.grid, (x + o.shift) % o.grid};
}

static uint32_t place_of(struct clap_order o, struct patch p)
{
    uint32_t y = (p.y + o.grid - o.shift) % o.grid, x = (p.x + o.grid - o.shift) % o.grid;
    uint32_t w = y / o.window * (o.grid / o.window) + x / o.window;

    return w * o.window * o.window + y % o.window * o.window + x % o.window;
}

void clap_map_between(struct clap_order from, struct clap_order to, uint32_t images, int32_t *ret)
{
    uint32_t count = to.grid * to.grid;

    for (uint32_t image = 0; image < images; image++)
        for (uint32_t i = 0; i < count; i++)
            *ret++ = (int32_t)(image * count + place_of(from, patch_at(to, i)));
}

void clap_map_patches(uint32_t high, struct clap_order to, uint32_t images, int32_t *ret)
{
    uint32_t count = to.grid * to.grid;

    for (uint32_t image = 0; image < images; image++) {
        for (uint32_t i = 0; i < count; i++) {
            struct patch p = patch_at(to, i);
            uint32_t frame = p.y / high * to.grid + p.x;

            *ret++ = (int32_t)(image * count + frame * high + p.y % high);
        }
    }
}

void clap_map_merge(struct clap_order from, struct clap_order to, uint32_t images, int32_t *ret)
{
    uint32_t count = from.grid * from.grid;

    for (uint32_t image = 0; image < images; image++) {
        for (uint32_t i = 0; i < count; i++) {
            struct patch p = patch_at(to, i / 4);

            p = (struct patch){2 * p.y + i % 2, 2 * p.x + i / 2 % 2};
            *ret++ = (int32_t)(image * count + place_of(from, p));
        }
    }
}

void clap_map_kinds(struct clap_order o, uint32_t images, uint32_t *ret)
{
    uint32_t side = o.grid / o.window;

    for (uint32_t i = 0; i < images * side * side; i++) {
        bool lower = i / side % side == side - 1, right = i % side == side - 1;

        ret[i] = o.shift ? 2 * (uint32_t)lower + (uint32_t)right : 0;
    }
}

/* Whether patches i and j of a window were on both sides of the grid's edge. */
static bool crosses_grid_edge(uint32_t window, uint32_t shift, uint32_t kind, uint32_t i,
                              uint32_t j)
{
    uint32_t edge = window - shift; /* from there on they have come around */
    bool down = (i / window < edge) != (j / window < edge);
    bool aside = (i % window < edge) != (j % window < edge);

    return (kind & 2 && down) || (kind & 1 && aside);
}

void clap_map_bias(uint32_t window, uint32_t shift, uint32_t heads, const float *table, float *ret)
{
    uint32_t n = window * window, kinds = shift ? CLAP_MAP_KINDS : 1;

    for (uint32_t kind = 0; kind < kinds; kind++) {
        for (uint32_t h = 0; h < heads; h++) {
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t j = 0; j < n; j++) {
                    uint32_t down = i / window + window - 1 - j / window;
                    uint32_t aside = i % window + window - 1 - j % window;
                    float bias = table[(size_t)(down * (2 * window - 1) + aside) * heads + h];

                    *ret++ = crosses_grid_edge(window, shift, kind, i, j) ? bias + APART : bias;
                }
            }
        }
    }
}
