#include "tools/enqueue/again.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/read/recipes.h"
#include "tools/enqueue/stages/stage_differ.h"
#include "tools/cli/text.h"

struct counting {
    struct again *again;
    const struct groups *groups;
    const struct store_stage *stage;
    struct store *known;
    const char *root, *last; /* and the one whose row came last */
    bool failed;
};

static struct again_item *item_of(struct counting *c, const struct recipe_other *o)
{
    struct again *a = c->again;
    struct buf words = BUF_INIT;
    struct again_item *new;

    for (uint32_t i = 0; i < a->count; i++)
        if (a->items[i].was == o->stage_id &&
            strcmp(a->items[i].stage->params_json, c->stage->params_json) == 0)
            return &a->items[i];
    if (a->count == AGAIN_MAX)
        return &a->items[AGAIN_MAX - 1];
    new = &a->items[a->count++];
    stage_differ(&o->was, c->stage, &words);
    *new = (struct again_item){.stage = c->stage, .was = o->stage_id, .root = c->root};
    new->differs = buf_cstr(&words) ? strdup(buf_cstr(&words)) : NULL;
    c->failed |= !new->differs;
    buf_free(&words);
    return new;
}

static int count_other_recipe(void *arg, const struct recipe_other *o)
{
    struct counting *c = arg;
    struct again_item *item;

    if (groups_have_below(c->groups, c->root, &o->was))
        return 0;
    c->again->told += o->told;
    if (o->recordings == 0) {
        c->again->have += o->have;
        return 0;
    }
    item = item_of(c, o);
    item->roots += item->roots == 0 || c->last != c->root;
    item->recordings += o->recordings;
    item->have += o->have;
    item->known_ms += o->known_ms;
    item->unknown += o->unknown;
    c->last = c->root;
    return c->failed;
}

static int count_of(void *arg, const struct store_stage *stage, const char *root, struct err *err)
{
    struct counting *c = arg;
    struct err ignored = {0};
    char *untimed = NULL;
    int rc;

    c->stage = stage;
    c->root = root;
    if (stage_kind_find(stage->name) == &stage_transcribe)
        (void)transcribe_params_untimed(stage->params_json, &untimed, &ignored);
    rc = recipes_others(c->known, root, stage, untimed, count_other_recipe, c, err);
    free(untimed);
    return c->failed ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

int again_count(const struct groups *g, struct store *known, struct again *ret, struct err *err)
{
    struct counting c = {.again = ret, .groups = g, .known = known};

    memset(ret, 0, sizeof(*ret));
    return known ? groups_new(g, count_of, &c, err) : 0;
}

void again_free(struct again *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        free(a->items[i].differs);
    memset(a, 0, sizeof(*a));
}

/* "12 recordings (3 h 05 min, and 2 of unknown length)" */
static void put_amount(const struct again_item *k, bool up_to, struct buf *out)
{
    char n[TEXT_LEN], length[TEXT_LEN], unknown[TEXT_LEN];

    buf_printf(out, "%s%s %s (", up_to ? "up to " : "", text_count(k->recordings, n),
               text_plural(k->recordings, "recording", "recordings"));
    if (k->unknown < k->recordings)
        buf_printf(out, "%s", text_length(k->known_ms, length));
    if (k->unknown > 0 && k->unknown < k->recordings)
        buf_printf(out, ", and %s of unknown length", text_count(k->unknown, unknown));
    else if (k->unknown > 0)
        buf_printf(out, "of unknown length");
    buf_printf(out, ")");
}

void again_words(const struct again *a, bool up_to, struct buf *out)
{
    char n[TEXT_LEN];

    for (uint32_t i = 0; i < a->count; i++) {
        const struct again_item *k = &a->items[i];
        char *root = utf8_display(k->root, strlen(k->root));

        buf_printf(out, "%sOther options than last time for %s", i > 0 ? " " : "",
                   root ? root : "");
        if (k->roots > 1)
            buf_printf(out, " and %s more", text_count(k->roots - 1, n));
        buf_printf(out, ", ");
        enqueue_stage_words(k->stage, out);
        buf_printf(out, ": %s. That is ", k->differs);
        put_amount(k, up_to, out);
        buf_printf(out, " to do again");
        if (k->have > 0)
            buf_printf(out, "; %s %s it already", text_count(k->have, n),
                       text_plural(k->have, "more has", "more have"));
        buf_printf(out, ".");
        free(root);
    }
}
