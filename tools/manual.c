/* The manual page, made when the program is built: standard input (docs/nightshift.1.in) with what
 * the stages' tables (workers/stages/stage_kind.h) say of options, in mdoc(7), where a line of it
 * has a mark. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/param_option.h"
#include "workers/stages/stage_kind.h"

/* ---------------------------------------------------------------------------------- texts */

/* "--task=translate." without the dashes, by its macros; `ended`: the sentence ends with it. */
static void put_option(const char *s, size_t n, bool ended)
{
    size_t name = 0, word = n;

    while (word > 0 && strchr(".,;:)", s[word - 1]))
        word--;
    while (name < word && s[name] != '=')
        name++;
    printf(".Fl Fl %.*s", (int)name, s);
    if (name < word)
        printf(" Ns = Ns Cm %.*s", (int)(word - name - 1), s + name + 1);
    for (size_t i = word; i < n; i++)
        printf(" %c", s[i]);
    puts(ended && word == n ? " ." : "");
}

/* begins: the line with it, at whose head a dot or quote would be a macro's. Names are not broken.
 */
static void put_word(const char *s, size_t n, bool begins)
{
    printf("%s%s", begins ? "" : " ", *s == '\'' ? "\\%" : begins && *s == '.' ? "\\&" : "");
    for (size_t i = 0; i < n; i++)
        printf("%s%c", s[i] == '-' && isdigit((unsigned char)s[i + 1]) ? "\\" : "", s[i]);
}

/* A line for each sentence, and for each option that it names. */
static void put_text(const char *s)
{
    bool begins = true;

    for (size_t n; *s != 0; s += n, s += strspn(s, " ")) {
        const bool last = s[n = strcspn(s, " ")] == 0;

        if (n > 2 && strncmp(s, "--", 2) == 0) {
            printf("%s", begins ? "" : "\n");
            put_option(s + 2, n - 2, last);
            begins = true;
            continue;
        }
        put_word(s, n, begins);
        begins = s[n - 1] == '.' && n > 1 && s[n - 2] != '.';
        if (last && s[n - 1] != '.')
            putchar('.');
        if (last || begins)
            putchar('\n');
    }
}

/* Sentences, or else what --help says as one. */
static void put_words(const char *manual, const char *help)
{
    char *sentence = strdup(manual ? manual : help);

    if (!sentence)
        exit(EXIT_FAILURE);
    if (!manual)
        sentence[0] = (char)toupper((unsigned char)sentence[0]);
    put_text(sentence);
    free(sentence);
}

/* -------------------------------------------------------------------------------- options */

static void put_field(const struct param_field *f, const char *before)
{
    char name[PARAM_OPTION_LEN];

    param_option_name(f, name);
    fputs(before, stdout);
    if (f->letter)
        printf(" Fl %c ,", f->letter);
    printf(" Fl Fl %s", name);
    if (f->value)
        printf(" Ns = Ns Ar %s", f->value);
}

/* Of which nothing is said stand beside the next. */
static void put_fields(const struct param_table *t)
{
    const char *before = ".It";

    for (const struct param_field *f = t->fields; f < t->fields + t->count; f++) {
        if (!f->help)
            continue;
        if (f->title)
            printf(".El\n.Pp\n%s:\n.Bl -tag -width Ds\n", f->title);
        put_field(f, before);
        before = " ,";
        if (f->help[0] == 0 && !f->manual)
            continue;
        putchar('\n');
        put_words(f->manual, f->help);
        before = ".It";
    }
}

/* asked: those that have an option of their own, not what is done without one. */
static void put_stages(bool asked)
{
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct stage_kind *k = stage_kinds[i];

        if ((k->help != NULL) != asked)
            continue;
        if (asked) {
            printf(".It Fl Fl %s Ns Op = Ns Ar MODEL\n", k->option);
            put_words(k->manual, k->help);
        }
        put_fields(k->params);
    }
}

static void put_transcription(void) { put_stages(false); }
static void put_beside(void) { put_stages(true); }

static void put_beside_as_one(void)
{
    const char *before = ".It";

    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (stage_kinds[i]->help) {
            /* Op would reach to the end of the line. */
            printf("%s Fl Fl %s Ns Oo = Ns Ar MODEL Oc", before, stage_kinds[i]->option);
            before = " ,";
        }
    putchar('\n');
}

/* ----------------------------------------------------------------------------------- page */

static const struct mark {
    const char *line;
    void (*put)(void);
} marks[] = {{"@transcription@\n", put_transcription},
             {"@beside it@\n", put_beside},
             {"@beside it, as one@\n", put_beside_as_one}};

int main(void)
{
    char *line = NULL;
    size_t room = 0, i;

    while (getline(&line, &room, stdin) >= 0) {
        for (i = 0; line[0] == '@' && i < sizeof(marks) / sizeof(marks[0]); i++)
            if (strcmp(line, marks[i].line) == 0)
                break;
        if (line[0] != '@')
            fputs(line, stdout);
        else if (i < sizeof(marks) / sizeof(marks[0]))
            marks[i].put();
        else {
            fprintf(stderr, "manual: an unknown mark: %s", line);
            return EXIT_FAILURE;
        }
    }
    free(line);
    return fflush(stdout) == 0 && !ferror(stdin) ? EXIT_SUCCESS : EXIT_FAILURE;
}
