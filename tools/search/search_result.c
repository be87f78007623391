#include "tools/search/search_result.h"

#include <math.h>
#include <stdlib.h>

const char *const search_way_names[SEARCH_WAYS] = {"words", "meaning", "class", "sound"};

void search_result_free(struct search_result *r)
{
    free(r->path);
    free(r->member);
    free(r->speaker);
    free(r->language);
    free(r->text);
    free(r->snippet);
    free(r->sound);
    for (size_t i = 0; i < r->speaker_count; i++)
        free(r->speakers[i]);
    free(r->speakers);
    *r = (struct search_result){0};
}

void search_results_free(struct search_results *r)
{
    for (size_t i = 0; i < r->count; i++)
        search_result_free(&r->list[i]);
    free(r->list);
    r->list = NULL;
    r->count = 0;
}

struct search_result search_of_segment(const struct read_segment *s)
{
    return (struct search_result){.media_id = s->media_id,
                                  .start_ms = s->start_ms,
                                  .end_ms = s->end_ms,
                                  .score = NAN,
                                  .by = {[SEARCH_WORDS] = true},
                                  .likeness = NAN,
                                  .sound_score = NAN,
                                  .path = (char *)s->path,
                                  .member = (char *)s->member,
                                  .speaker = (char *)s->speaker,
                                  .language = (char *)s->language,
                                  .text = (char *)s->text,
                                  .snippet = (char *)(s->snippet ? s->snippet : ""),
                                  .sound = (char *)""};
}

struct search_result search_of_span(const struct read_span *s)
{
    return (struct search_result){.media_id = s->media_id,
                                  .start_ms = s->start_ms,
                                  .end_ms = s->end_ms,
                                  .score = NAN,
                                  .by = {[SEARCH_WORDS] = true},
                                  .several = s->segments > 1,
                                  .likeness = NAN,
                                  .sound_score = NAN,
                                  .path = (char *)s->path,
                                  .member = (char *)s->member,
                                  .speaker = (char *)s->speaker,
                                  .speakers = (char **)s->speakers,
                                  .speaker_count = s->speaker_count,
                                  .language = (char *)s->language,
                                  .text = (char *)s->text,
                                  .snippet = (char *)s->snippet,
                                  .sound = (char *)""};
}
