/* The manual pages, made when the program is built: standard input (docs/nightshift.1.in) with what
 * the tables of commands (tools/commands/commands.h) say of options, in mdoc(7), where a line of it
 * has a mark.
 *
 *   manual          nightshift.1, the whole
 *   manual COMMAND  nightshift-COMMAND.1: that command's section as a page */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"

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

/* The length of "`status --failures`," with what stands behind it; 0: no such thing begins here. */
static size_t measure_quoted(const char *s)
{
    const char *end = *s == '`' ? strchr(s + 1, '`') : NULL;

    return end ? (size_t)(end - s) + strcspn(end, " ") : 0;
}

/* Words that stand for themselves, though some may be called as a macro is. */
static void put_quoted(const char *s, size_t n, bool ended)
{
    size_t end = n;

    while (s[end - 1] != '`')
        end--;
    fputs(".Ql", stdout);
    for (size_t i = 1; i < end - 1; i++)
        if (s[i - 1] == ' ' || i == 1)
            printf(" \\&%c", s[i]);
        else if (s[i] != ' ')
            putchar(s[i]);
    for (; end < n; end++)
        printf(" %c", s[end]);
    puts(ended && s[n - 1] == '`' ? " ." : "");
}

/* A line for each sentence, and for each option or command that it names. */
static void put_text(const char *s)
{
    bool begins = true;

    for (size_t n; *s != 0; s += n, s += strspn(s, " ")) {
        const bool last = s[n = measure_quoted(s) ? measure_quoted(s) : strcspn(s, " ")] == 0;

        if (measure_quoted(s)) {
            printf("%s", begins ? "" : "\n");
            put_quoted(s, n, last);
            begins = true;
            continue;
        }
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

/* before: the macro in front of it. Returns the next one's: those of which nothing is said stand
 * beside the next. */
static const char *put_command_option(const struct command_option *o, bool first,
                                      const char *before)
{
    if (o->title && !first)
        printf(".El\n.Pp\n%s:\n.Bl -tag -width Ds\n", o->title);
    fputs(before, stdout);
    if (o->letter)
        printf(" Fl %c ,", o->letter);
    if (o->also)
        printf(" Fl Fl %s ,", o->also);
    printf(" Fl Fl %s", o->name);
    if (o->value && o->value[0] == '[')
        printf(" Ns Oo = Ns Ar %.*s Oc", (int)strcspn(o->value + 2, "]"), o->value + 2);
    else if (o->value)
        printf(" Ns = Ns Ar %s", o->value);
    if (o->help[0] == 0 && !o->manual)
        return " ,";
    putchar('\n');
    put_words(o->manual, o->help);
    return ".It";
}

/* words: "erase@\n". false: there is no such command, or it has no options. */
static bool put_command_options(const char *words)
{
    char name[40];
    struct command_rows rows;
    const struct commands_entry *c;
    const char *before = ".It";

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(words, "@"), words);
    c = commands_find(name);
    if (!c || !c->command->options)
        return false;
    command_rows_of(c->command, false, &rows);
    if (rows.list[0].title)
        printf(".Pp\n%s:\n", rows.list[0].title);
    puts(".Bl -tag -width Ds");
    for (size_t i = 0; i < rows.count; i++)
        before = put_command_option(&rows.list[i], i == 0, before);
    puts(".El");
    return true;
}

/* --------------------------------------------------------------------------- a command's page */

#define COMMAND "@command\n"
#define SECTION ".Ss nightshift "

/* Whether wanted is among the commands of a section: "retry | cancel [option ...]". */
static bool is_command_listed(const char *words, const char *wanted)
{
    bool found = false, last = false;

    for (size_t n; !last; words += n + 3) {
        n = strcspn(words, " \n");
        last = strncmp(words + n, " | ", 3) != 0;
        found = found || (strlen(wanted) == n && strncmp(words, wanted, n) == 0);
    }
    return found;
}

/* "--into=N", "submit", "PATH", "|" without the brackets around them. */
static void put_usage_word(const char *word, size_t n)
{
    const char *value = memchr(word, '=', n);
    const size_t name = value ? (size_t)(value - word) : n;

    if (n > 2 && strncmp(word, "--", 2) == 0) {
        printf(".Fl Fl %.*s", (int)name - 2, word + 2);
        if (value)
            printf(" Ns = Ns Ar %.*s", (int)(n - name - 1), value + 1);
    } else if (!isalnum((unsigned char)*word))
        printf("%.*s", (int)n, word); /* a bar, or three dots, which are no macro's */
    else
        printf(".%s %.*s",
               islower((unsigned char)*word) && strncmp(word, "option", n) ? "Cm" : "Ar", (int)n,
               word);
    putchar('\n');
}

/* words: a section's title behind "nightshift". */
static void put_usage(const char *words)
{
    puts(".Nm nightshift");
    for (size_t n; *words != '\n' && *words != 0; words += n) {
        n = strspn(words, " ");
        if (n > 0)
            continue;
        n = 1;
        if (strchr("[]()", *words)) {
            puts(*words == '[' ? ".Oo" : *words == ']' ? ".Oc" : *words == '(' ? ".Po" : ".Pc");
            continue;
        }
        n = strcspn(words, " \n[]()");
        if (strncmp(words, "...", n) == 0)
            puts(".No ...");
        else
            put_usage_word(words, n);
    }
}

/* The forms that the command's table has. false: there is no such command. */
static bool put_usages(const char *command)
{
    const struct commands_entry *c = commands_find(command);
    char words[400];

    if (!c)
        return false;
    for (const char *s = c->command->usage; s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
        snprintf(words, sizeof(words), "%s %.*s", command, (int)strcspn(s, "\n"), s);
        put_usage(words);
    }
    return true;
}

/* NAME, and where SYNOPSIS begins. date: the line of the whole page. */
static void put_head(const char *date, const char *command)
{
    const struct commands_entry *c = commands_find(command);

    printf("%s.Dt NIGHTSHIFT-", date);
    for (const char *s = command; *s != 0; s++)
        putchar(toupper((unsigned char)*s));
    puts(" 1\n.Os\n.Sh NAME");
    printf(".Nm nightshift-%s\n.Nd %s\n.Sh SYNOPSIS\n", command, c ? c->summary : "");
}

static const char foot[] = ".Sh SEE ALSO\n"
                           ".Xr nightshift 1 ,\n"
                           "of which this is a part, and which has the options of every command, "
                           "the environment, the files\n"
                           "and what an exit status means.\n";

/* ----------------------------------------------------------------------------------- page */

#define OPTIONS "@options "

/* false: a mark that nobody knows. */
static bool put_line(const char *line)
{
    if (strncmp(line, OPTIONS, sizeof(OPTIONS) - 1) == 0 &&
        put_command_options(line + sizeof(OPTIONS) - 1))
        return true;
    if (line[0] != '@')
        fputs(line, stdout);
    else
        fprintf(stderr, "manual: an unknown mark: %s", line);
    return line[0] != '@';
}

struct page {
    const char *command;                            /* NULL: the whole */
    char date[80];                                  /* the line */
    enum { BEFORE, TITLES, DONE, TEXT, BEHIND } at; /* DONE: the synopsis is whole */
};

/* A line of a command's page, or of another one's. */
static bool put_line_of(struct page *p, const char *line)
{
    const bool title = strncmp(line, SECTION, sizeof(SECTION) - 1) == 0;
    const char *words = title ? line + sizeof(SECTION) - 1 : "";

    if (strncmp(line, ".Dd ", 4) == 0)
        snprintf(p->date, sizeof(p->date), "%s", line);
    if (p->at == BEFORE && title && is_command_listed(words, p->command)) {
        put_head(p->date, p->command);
        p->at = TITLES;
    }
    if (p->at == TITLES && title && !put_usages(p->command))
        put_usage(words);
    else if (p->at == TITLES && title)
        p->at = DONE;
    else if ((p->at == TITLES || p->at == DONE) && !title) {
        puts(".Sh DESCRIPTION");
        p->at = TEXT;
    }
    if (p->at == TEXT && (strcmp(line, COMMAND) == 0 || strncmp(line, ".Sh", 3) == 0))
        p->at = BEHIND;
    if (p->at != TEXT)
        return true;
    return put_line(strcmp(line, ".Nm\n") == 0 ? ".Nm nightshift\n" : line);
}

int main(int argc, char **argv)
{
    struct page page = {.command = argc > 1 ? argv[1] : NULL};
    char *line = NULL;
    size_t capacity = 0;
    bool well = true;

    while (well && getline(&line, &capacity, stdin) >= 0)
        if (page.command)
            well = put_line_of(&page, line);
        else if (strcmp(line, COMMAND) != 0)
            well = put_line(line);
    free(line);
    if (well && page.command && page.at != BEHIND) {
        fprintf(stderr, "manual: there is no section of '%s'\n", page.command);
        well = false;
    }
    if (page.command)
        fputs(foot, stdout);
    return well && fflush(stdout) == 0 && !ferror(stdin) ? EXIT_SUCCESS : EXIT_FAILURE;
}
