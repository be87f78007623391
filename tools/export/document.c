#include "tools/export/document.h"

#include <string.h>

#include "tools/export/names.h"

bool document_words_are_text(const struct document_segment *s)
{
    const char *text = s->text;

    for (size_t i = 0; i < s->word_count; i++) {
        const char *word = s->words[i].text;

        word += i == 0 ? strspn(word, " ") : 0;
        if (strncmp(text, word, strlen(word)) != 0) {
            size_t n = strlen(text);

            /* The last word's trailing blanks are none of the text's. */
            return i + 1 == s->word_count && strncmp(text, word, n) == 0 &&
                   strspn(word + n, " ") == strlen(word + n);
        }
        text += strlen(word);
    }
    return s->word_count > 0 && *text == 0;
}

/* The reason is as workers/stages/transcribe/outcome/doubt.h writes it. */
bool document_doubted(const char *reason)
{
    static const char again[] = "tried again";

    return reason[0] != 0 &&
           (strncmp(reason, again, sizeof(again) - 1) != 0 || strstr(reason, "; "));
}

const char *document_name(const struct document *d, size_t *len)
{
    const char *name = d->member[0] != 0 ? d->member : d->path, *slash = strrchr(name, '/');

    name = slash ? slash + 1 : name;
    *len = names_stem(name);
    return name;
}
