/* workers/text/languages.h - the languages of Whisper's models by name: "Spanish", "castilian" and
 * "español" are "es". Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_LANGUAGES_H
#define NIGHTSHIFT_WORKERS_TEXT_LANGUAGES_H

#include <stdbool.h>
#include <stddef.h>

/* The code of a name or of a code, in upper or lower case, UTF-8. Static. NULL: it is neither (a
 * model may have a language of its own beside these), or there is no memory. */
const char *language_code(const char *word);
/* The English name of a code, in lower case. Static. NULL: the code has none here. */
const char *language_name(const char *code);
/* The code of the i-th language token of the published models; NULL past the last, which models of
 * before 2023-11 lack. Static. */
#define LANGUAGE_TOKENS_MAX 100
const char *language_token(size_t i);
/* Does the language of this code put no blanks between words? */
bool language_without_blanks(const char *code);
/* Writes all names, as many as fit, to find the nearest one. Returns their number. The names are
 * static. */
#define LANGUAGE_NAMES_MAX 256
size_t language_names(const char **ret, size_t capacity);

#endif
