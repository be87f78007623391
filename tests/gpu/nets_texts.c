/* Texts to vectors: sentence encoders of two architectures, and CLAP's text tower. */
#include "tests/gpu/nets.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/common/formula_weights.h"
#include "tests/common/test.h"
#include "tests/parity/clap/model.h"
#include "tests/parity/embed/model.h"
#include "workers/models/clap/clap.h"
#include "workers/models/bert/embedder.h"

#define WORDS_MAX 420
#define WORD_BYTES 12
#define PASSAGE_WORDS 34 /* of a text that is measured: about 128 tokens, as a passage has */

struct texts {
    struct net_model model;
    struct embedder *embedder; /* one of the two */
    struct clap *clap;
    char **text; /* [items] */
    uint32_t items;
};

/* Words of made-up syllables: from one to more than a model reads. */
static char *make_text(const struct net_setup *s, uint32_t i)
{
    static const char *const syllables[] = {"ba", "the", "ing", "so", "ran", "mu", "est", "ko"};
    static const uint32_t words[] = {7, 1, 30, 3, WORDS_MAX, 12};
    uint32_t n = s->measured ? PASSAGE_WORDS : words[i % (sizeof(words) / sizeof(words[0]))];
    size_t len = 0, cap = (size_t)n * WORD_BYTES + 1;
    char *text = net_memory(cap, 1);
    uint32_t seed = 77 + i;

    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t part = 0; part < 1 + k % 3; part++) {
            seed = seed * 1664525u + 1013904223u;
            len += (size_t)snprintf(text + len, cap - len, "%s", syllables[seed >> 29]);
        }
        if (k + 1 < n)
            len += (size_t)snprintf(text + len, cap - len, " ");
    }
    return text;
}

static void texts_close(struct net_model *m)
{
    struct texts *t = (struct texts *)m;

    embedder_free(t->embedder);
    clap_free(t->clap);
    for (uint32_t i = 0; i < t->items; i++)
        free(t->text[i]);
    free(t->text);
    free(t);
}

static struct texts *texts_new(const struct net_setup *s)
{
    struct texts *t = net_memory(1, sizeof(*t));

    t->items = s->items;
    t->text = net_memory(s->items, sizeof(*t->text));
    for (uint32_t i = 0; i < s->items; i++)
        t->text[i] = make_text(s, i);
    return t;
}

/* ---- sentence encoders */

/* The parity tests' folders have names of their own making: this one is moved. */
static void make_encoder(const struct encoder_shape *shape)
{
    char dir[] = "encoder-XXXXXX";

    encoder_folder(shape, dir);
    if (rename(dir, NET_FOLDER) != 0)
        abort();
}

static void bert_make(const struct net_setup *s)
{
    make_encoder(s->published ? &encoder_minilm : &encoder_bert);
}

static void bert_base_make(const struct net_setup *s)
{
    (void)s;
    make_encoder(&encoder_bge);
}

static void xlmr_make(const struct net_setup *s)
{
    (void)s;
    make_encoder(&encoder_xlmr);
}

static int count_tokens(struct texts *t, struct err *err)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < t->items; i++) {
        uint32_t n = 0;

        if (embedder_count(t->embedder, t->text[i], &n, err) != 0)
            return err->code;
        all += n < embedder_max_tokens(t->embedder) ? n : embedder_max_tokens(t->embedder);
    }
    t->model.item_tokens = (double)all / t->items;
    return 0;
}

static int encoder_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                        struct err *err)
{
    struct texts *t = texts_new(s);
    int rc = embedder_load(NET_FOLDER, be, s->precision, &t->embedder, err);

    if (rc == 0)
        rc = count_tokens(t, err);
    if (rc == 0)
        t->model.values = embedder_size(t->embedder);
    else
        texts_close(&t->model);
    *ret = &t->model;
    return rc;
}

static int encoder_run(struct net_model *m, uint32_t first, uint32_t n, float *ret, struct err *err)
{
    struct texts *t = (struct texts *)m;

    return embedder_run(t->embedder, (const char *const *)t->text + first, n, EMBED_PASSAGE, ret,
                        err);
}

const struct net net_bert = {
    .small = "BERT, 3 layers of 48",
    .published = "MiniLM-L6",
    .items = "texts",
    .choice = true,
    .make = bert_make,
    .open = encoder_open,
    .run = encoder_run,
    .close = texts_close,
};

const struct net net_bert_base = {
    .published = "BERT base (bge-base)",
    .items = "texts",
    .choice = true,
    .make = bert_base_make,
    .open = encoder_open,
    .run = encoder_run,
    .close = texts_close,
};

const struct net net_xlmr = {
    .small = "XLM-R, 3 layers of 48",
    .items = "texts",
    .choice = true,
    .make = xlmr_make,
    .open = encoder_open,
    .run = encoder_run,
    .close = texts_close,
};

/* ---- CLAP */

static void clap_text_make(const struct net_setup *s)
{
    struct formula *f = clap_model(&clap_small);

    (void)s;
    if (clap_model_write(&clap_small, f, NET_FOLDER) != 0 || clap_model_tokenizer(NET_FOLDER) != 0)
        abort();
    formula_free(f);
}

static int clap_text_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                          struct err *err)
{
    struct texts *t = texts_new(s);
    int rc = clap_load(NET_FOLDER, be, s->precision, CLAP_TEXT, 0, &t->clap, err);

    if (rc == 0)
        t->model.values = clap_size(t->clap);
    else
        texts_close(&t->model);
    *ret = &t->model;
    return rc;
}

static int run_clap_texts(struct net_model *m, uint32_t first, uint32_t n, float *ret,
                          struct err *err)
{
    struct texts *t = (struct texts *)m;

    return clap_run_text(t->clap, (const char *const *)t->text + first, n, ret, err);
}

const struct net net_clap_text = {
    .small = "CLAP text, 2 layers of 48",
    .items = "texts",
    .choice = true,
    .make = clap_text_make,
    .open = clap_text_open,
    .run = run_clap_texts,
    .close = texts_close,
};
