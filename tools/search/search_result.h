/* tools/search/search_result.h - what is asked of a search, and what it finds.
 * Plain values; main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_RESULT_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_RESULT_H

#include <stdbool.h>

#include "store/read/read.h"

enum search_way { SEARCH_WORDS, SEARCH_MEANING, SEARCH_CLASS, SEARCH_SOUND, SEARCH_WAYS };
extern const char *const search_way_names[SEARCH_WAYS]; /* "words", ... */

#define SEARCH_NEAR_MS 10000 /* applause comes when the sentence is over */

struct search_wish {  /* borrowed */
    const char *text; /* what was said; NULL: not asked */
    /* A sound; with a text, it is at most SEARCH_NEAR_MS from it. NULL: not asked. */
    const char *sound;
    bool words, meaning;
    bool meaning_must; /* it is an error when meaning cannot be searched, and the least alike is
                        * found too; else what does not stand out is left out */
    /* The words are in segments that begin at most so far apart, and stay in the result; 0: in one
     * segment. */
    int64_t within_ms;
    bool one_word; /* what is known of the text (search_typed.h) */
    size_t terms;
    const char *path, *speaker, *language;
    const char *mark_begin, *mark_end;
    uint32_t limit; /* so many of the ranking are shown; 0: all */
};

struct search_result { /* a row; strings owned by the list */
    int64_t media_id, start_ms, end_ms;
    double score;
    bool by[SEARCH_WAYS];
    bool several;       /* segments: it ends at end_ms, and their texts have " ... " between */
    double likeness;    /* cosine of the meaning, else of the sound; NAN: neither */
    double sound_score; /* of the class; NAN: none */
    int64_t sound_start_ms, sound_end_ms; /* of what is heard; both 0: none */
    char *path, *member, *language;
    char *speaker;   /* who says most of it; "" unknown */
    char **speakers; /* all who speak in it, in the order of appearance; none where it is one
                      * segment, which is said by `speaker` */
    size_t speaker_count, speakers_more; /* more: who are not named here */
    char *text;                          /* the passage; "" when nobody says anything there */
    char *snippet; /* the same with the marks around the words that were found */
    char *sound;   /* name of the class, "" none */
};
struct search_results { /* owned: search_results_free */
    struct search_result *list;
    size_t count;
    size_t named; /* so many first ones have the words, or the class of sound, that were asked for;
                   * the others are like it */
    bool heard;   /* something sounds like what was asked for */
    char note[300]; /* what meaning was not searched for although it could have been; "" */
};

/* A result from a row found by words; it borrows the row's strings. */
struct search_result search_of_segment(const struct read_segment *s);
struct search_result search_of_span(const struct read_span *s);

void search_result_free(struct search_result *r); /* one that owns its strings; zero then */
void search_results_free(struct search_results *r);

#endif
