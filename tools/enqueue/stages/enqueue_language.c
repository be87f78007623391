#include "tools/enqueue/stages/enqueue_language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/did_you_mean.h"
#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/text/languages.h"
#include "workers/text/tokenizer/vocabulary.h"

#define WORD_LEN 80    /* of one name, with its NUL */
#define LISTED_MAX 300 /* bytes of codes in a sentence */

/* ", perhaps": the name that was meant by this word, or NULL. */
static const char *find_nearest_language(const char *word)
{
    const char *names[LANGUAGE_NAMES_MAX];
    size_t n = language_names(names, LANGUAGE_NAMES_MAX);

    return did_you_mean(word, names, n);
}

static int report_bad_language(const char *word, struct err *err)
{
    const char *meant = find_nearest_language(word);

    return err_set(err, ERR_USAGE,
                   "--language: '%.60s' is not the name or code of a language. %s%s%s", word,
                   meant ? "Perhaps '" : "Try a name or code such as Spanish or es",
                   meant ? meant : "", meant ? "' was meant" : "");
}

/* The word [word, end) without the blanks around it. */
static int take_code(const char *word, const char *end, char ret[TRANSCRIBE_CODE_LEN],
                     struct err *err)
{
    char plain[WORD_LEN];
    const char *code;

    while (word < end && *word == ' ')
        word++;
    while (end > word && end[-1] == ' ')
        end--;
    snprintf(plain, sizeof(plain), "%.*s", (int)(end - word), word);
    if (end == word || (size_t)(end - word) >= sizeof(plain) || !utf8_valid(plain, strlen(plain)))
        return err_set(err, ERR_USAGE,
                       "--language wants names or codes such as Spanish or es, with commas "
                       "between them");
    code = language_code(plain);
    if (code) {
        snprintf(ret, TRANSCRIBE_CODE_LEN, "%s", code);
        return 0;
    }
    for (char *c = plain; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c += 'a' - 'A';
    if (strlen(plain) >= TRANSCRIBE_CODE_LEN ||
        strspn(plain, "abcdefghijklmnopqrstuvwxyz-_") < strlen(plain))
        return report_bad_language(plain, err);
    memcpy(ret, plain, strlen(plain) + 1);
    return 0;
}

static int by_code(const void *a, const void *b) { return strcmp(a, b); }

/* Each code once, in order. */
static int join_language_codes(char codes[][TRANSCRIBE_CODE_LEN], size_t n,
                               struct transcribe_params *p, struct err *err)
{
    char list[TRANSCRIBE_LANGUAGES_MAX * TRANSCRIBE_CODE_LEN] = "";
    size_t len = 0;

    qsort(codes, n, sizeof(codes[0]), by_code);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(codes[i], codes[i - 1]) != 0)
            len +=
                (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? "," : "", codes[i]);
    if (len >= sizeof(p->language))
        return err_set(err, ERR_USAGE, "--language: the codes are %zu bytes together; at most %zu",
                       len, sizeof(p->language) - 1);
    memset(p->language, 0, sizeof(p->language)); /* equal parameters are equal bytes */
    memcpy(p->language, list, len);
    return 0;
}

int enqueue_language_take(const char *value, struct transcribe_params *p, struct err *err)
{
    char codes[TRANSCRIBE_LANGUAGES_MAX][TRANSCRIBE_CODE_LEN];
    size_t n = 0;
    int rc = 0;

    if (strcmp(value, "auto") == 0)
        return join_language_codes(codes, 0, p, err);
    for (const char *at = value, *end; rc == 0; at = end + 1) {
        end = at + strcspn(at, ",");
        if (n == TRANSCRIBE_LANGUAGES_MAX)
            return err_set(err, ERR_USAGE, "--language takes up to %d languages",
                           TRANSCRIBE_LANGUAGES_MAX);
        rc = take_code(at, end, codes[n++], err);
        if (!*end)
            break;
    }
    return rc ? rc : join_language_codes(codes, n, p, err);
}

/* ------------------------------------------------------------------------------- the model */

static int report_unknown_language(const struct vocabulary *v, const char *code, struct err *err)
{
    const char *name = language_name(code), *meant = name ? NULL : find_nearest_language(code);
    struct buf list = BUF_INIT;
    int rc;

    for (uint32_t i = 0; i < vocabulary_language_count(v) && list.len < LISTED_MAX; i++)
        buf_printf(&list, "%s%s", i ? " " : "",
                   vocabulary_language_code(v, vocabulary_language_at(v, i)));
    if (meant)
        rc = err_set(err, ERR_USAGE, "it does not know the language '%s'. Perhaps '%s' was meant",
                     code, meant);
    else
        rc = err_set(err, ERR_USAGE, "it does not know the language '%s'%s%s%s. Try one of: %s",
                     code, name ? " (" : "", name ? name : "", name ? ")" : "", buf_cstr(&list));
    buf_free(&list);
    return rc;
}

const char *enqueue_language_shown(const char *code, char ret[ENQUEUE_LANGUAGE_LEN])
{
    const char *name = language_name(code);

    utf8_copy(ret, ENQUEUE_LANGUAGE_LEN, name ? name : code);
    if (name && ret[0] >= 'a' && ret[0] <= 'z')
        ret[0] = (char)(ret[0] - 'a' + 'A');
    return ret;
}

int enqueue_language_check(const struct vocabulary *v, const char *own, struct transcribe_params *p,
                           struct err *err)
{
    const char *list = p->language;
    char code[TRANSCRIBE_CODE_LEN], name[ENQUEUE_LANGUAGE_LEN];

    if (!vocabulary_multilingual(v)) {
        if (p->language[0] && strcmp(p->language, own) != 0)
            return err_set(err, ERR_USAGE,
                           "this model knows only %s, not '%s'. Leave --language out, or try "
                           "another --model",
                           enqueue_language_shown(own, name), p->language);
        memset(p->language, 0, sizeof(p->language));
        return 0;
    }
    while (transcribe_next_language(&list, code))
        if (vocabulary_language_id(v, code) < 0)
            return report_unknown_language(v, code, err);
    return 0;
}
