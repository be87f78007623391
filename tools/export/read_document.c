#include "tools/export/read_document.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/find.h"
#include "tools/demo_model.h"
#include "tools/export/format.h"

#define BLOCK_BYTES ((size_t)1 << 16)

struct block {
    struct block *next;
    alignas(max_align_t) char bytes[];
};
struct document_memory {
    struct block *blocks;
    size_t left; /* of the first one, at its end */
    size_t end;
    struct document_segment *segments;
    struct document_turn *turns;
    struct document_sound *sounds;
    struct document_tag *tags;
    struct document_chapter *chapters;
    struct result_channel *channels;
    struct document_word *words; /* of one segment, until they are copied */
};

void document_memory_free(struct document_memory *m)
{
    if (!m)
        return;
    for (struct block *b = m->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(m->segments);
    free(m->turns);
    free(m->sounds);
    free(m->tags);
    free(m->chapters);
    free(m->channels);
    free(m->words);
    free(m);
}

struct reading {
    struct store *st;
    struct document *d;
    struct document_memory *m;
    unsigned needs;
    size_t word_count;
    bool failed; /* no memory; looked at where a callback ends */
    struct err *err;
};

/* So many bytes that live as long as the document; NULL: no memory. */
static void *alloc_document_bytes(struct reading *x, size_t n)
{
    struct document_memory *m = x->m;
    size_t align = alignof(max_align_t), need = (n + align - 1) / align * align;

    if (need > m->left) {
        size_t capacity = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        struct block *b = malloc(sizeof(*b) + capacity);

        if (!b) {
            x->failed = true;
            return NULL;
        }
        b->next = m->blocks;
        m->blocks = b;
        m->left = m->end = capacity;
    }
    m->left -= need;
    return m->blocks->bytes + (m->end - m->left - need);
}

static const char *keep_text(struct reading *x, const char *s)
{
    size_t n = strlen(s) + 1;
    char *kept = n > 1 ? alloc_document_bytes(x, n) : NULL;

    return kept ? memcpy(kept, s, n) : "";
}

/* A list with room for one more, of which there are `count`; NULL: no memory. Its room is the next
 * power of two. */
static void *grow_document_list(struct reading *x, void *list, size_t count, size_t size)
{
    void *bigger = list;

    if (count == 0 ? !list : count >= 16 && (count & (count - 1)) == 0)
        bigger = realloc(list, (count < 16 ? 16 : count * 2) * size);
    x->failed |= !bigger;
    return bigger;
}

/* Puts it behind the list, which is a field of x->m and has its count in x->d. */
#define APPEND(x, list, count, ...)                                          \
    do {                                                                     \
        void *bigger_ = grow_document_list(x, list, count, sizeof(*(list))); \
        if (bigger_) {                                                       \
            (list) = bigger_;                                                \
            (list)[(count)++] = __VA_ARGS__;                                 \
        }                                                                    \
    } while (0)

static int check_reading_memory(struct reading *x)
{
    return x->failed ? err_set(x->err, ERR_NOMEM, "out of memory") : 0;
}

/* Sums of times that a catalog says must not overflow: some 140 years. */
static int64_t clamp_ms(int64_t ms)
{
    const int64_t most = (int64_t)1 << 42;

    return ms < 0 ? 0 : ms > most ? most : ms;
}

static int on_word(void *arg, const struct read_word *w)
{
    struct reading *x = arg;

    APPEND(x, x->m->words, x->word_count,
           (struct document_word){.start_ms = clamp_ms(w->start_ms),
                                  .end_ms = clamp_ms(w->end_ms),
                                  .text = keep_text(x, w->text),
                                  .probability = w->probability,
                                  .speaker = keep_text(x, w->speaker)});
    return check_reading_memory(x);
}

static int take_words(struct reading *x, const struct read_segment *row, struct document_segment *s)
{
    struct document_word *kept;
    int rc;

    x->word_count = 0;
    rc = read_words(x->st, row->segment_id, on_word, x, x->err);
    if (rc != 0 || x->word_count == 0)
        return rc;
    kept = alloc_document_bytes(x, x->word_count * sizeof(*kept));
    if (!kept)
        return check_reading_memory(x);
    memcpy(kept, x->m->words, x->word_count * sizeof(*kept));
    s->words = kept;
    s->word_count = x->word_count;
    return 0;
}

static int on_segment(void *arg, const struct read_segment *row)
{
    struct reading *x = arg;
    struct document_segment s = {.start_ms = clamp_ms(row->start_ms),
                                 .end_ms = clamp_ms(row->end_ms),
                                 .text = keep_text(x, row->text),
                                 .heard = row->heard ? keep_text(x, row->heard) : NULL,
                                 .language = keep_text(x, row->language),
                                 .speaker = keep_text(x, row->speaker),
                                 .avg_logprob = row->avg_logprob,
                                 .no_speech_prob = row->no_speech_prob,
                                 .compression_ratio = row->compression_ratio,
                                 .temperature = row->temperature,
                                 .attempts = row->attempts,
                                 .speech_prob = row->speech_prob,
                                 .reason = keep_text(x, row->reason)};
    int rc = 0;

    if ((x->needs & FORMAT_WORDS) && row->has_words)
        rc = take_words(x, row, &s);
    if (rc == 0)
        APPEND(x, x->m->segments, x->d->segment_count, s);
    return rc == 0 ? check_reading_memory(x) : rc;
}

static int on_turn(void *arg, const struct find_turn *row)
{
    struct reading *x = arg;

    APPEND(x, x->m->turns, x->d->turn_count,
           (struct document_turn){clamp_ms(row->start_ms), clamp_ms(row->end_ms),
                                  keep_text(x, row->speaker), keep_text(x, row->label)});
    return check_reading_memory(x);
}

static int on_sound(void *arg, const struct find_sound *row)
{
    struct reading *x = arg;

    APPEND(x, x->m->sounds, x->d->sound_count,
           (struct document_sound){clamp_ms(row->start_ms), clamp_ms(row->end_ms),
                                   keep_text(x, row->name), row->score});
    return check_reading_memory(x);
}

static int on_tag(void *arg, const struct result_tag *row)
{
    struct reading *x = arg;

    if (strcmp(row->source, "chapter") == 0)
        APPEND(x, x->m->chapters, x->d->chapter_count,
               (struct document_chapter){row->start_ms, row->end_ms, keep_text(x, row->value)});
    else
        APPEND(x, x->m->tags, x->d->tag_count,
               (struct document_tag){keep_text(x, row->source), keep_text(x, row->key),
                                     keep_text(x, row->value)});
    return check_reading_memory(x);
}

static int on_channel(void *arg, const struct result_channel *row)
{
    struct reading *x = arg;

    APPEND(x, x->m->channels, x->d->channel_count, *row);
    return check_reading_memory(x);
}

static int read_lists(struct reading *x, int64_t id, bool dropped)
{
    int rc = 0;

    if (x->needs & FORMAT_TEXT)
        rc = (dropped ? read_dropped : read_segments)(x->st, id, 0, on_segment, x, x->err);
    if (rc == 0 && (x->needs & FORMAT_TURNS) && !dropped)
        rc = find_turns(x->st, id, on_turn, x, x->err);
    if (rc == 0 && (x->needs & FORMAT_SOUNDS) && !dropped)
        rc = find_sounds_of(x->st, id, on_sound, x, x->err);
    if (rc == 0 && (x->needs & FORMAT_TAGS) && !dropped)
        rc = find_tags(x->st, id, on_tag, x, x->err);
    if (rc == 0 && (x->needs & FORMAT_TAGS) && !dropped)
        rc = find_channels(x->st, id, on_channel, x, x->err);
    return rc;
}

static int on_result(void *arg, const struct read_result *row)
{
    const bool begun = strcmp(row->state, "done") == 0 || strcmp(row->state, "started") == 0 ||
                       strcmp(row->state, "settling") == 0;

    if (row->current && begun)
        *(unsigned *)arg |= demo_model(row->model, row->model_hash);
    return 0;
}

int read_document_demo(struct store *st, int64_t media_id, unsigned *ret, struct err *err)
{
    *ret = 0;
    return read_results(st, media_id, on_result, ret, err);
}

int read_document(struct store *st, const struct read_recording *row, unsigned needs, bool dropped,
                  struct document *ret, struct document_memory **memory, struct err *err)
{
    struct document_memory *m = calloc(1, sizeof(*m));
    struct document d = {.id = row->media_id,
                         .duration_ms = row->duration_ms,
                         .path = row->path,
                         .member = row->member,
                         .state = row->state,
                         .language = row->language,
                         .title = row->title,
                         .recorded_on = row->recorded_on,
                         .damage = row->damage,
                         .left_out = row->left_out,
                         .no_sound = row->no_sound,
                         .textless = TEXTLESS_KINDS,
                         .dropped = dropped};
    struct reading x = {.st = st, .d = &d, .m = m, .needs = needs, .err = err};
    int rc = m ? read_lists(&x, row->media_id, dropped) : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0)
        rc = read_document_demo(st, row->media_id, &d.demo, err);
    if (rc == 0)
        rc = store_textless_of(st, row->media_id, &d.textless, err);
    d.made = demo_model_made(d.demo);
    if (rc != 0) {
        document_memory_free(m);
        return rc;
    }
    d.segments = m->segments;
    d.turns = m->turns;
    d.sounds = m->sounds;
    d.tags = m->tags;
    d.chapters = m->chapters;
    d.channels = m->channels;
    *ret = d;
    *memory = m;
    return 0;
}
