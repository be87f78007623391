#include "tools/score/score_der.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "tools/cli/text.h"
#include "tools/score/rttm.h"

#define NUMBERS_WIDE 54 /* columns of what stands behind the name */
#define NUMBERS_NARROW 20

struct scored {
    const char *name; /* borrowed from the reference */
    bool heard;       /* the hypothesis says something of it */
    struct der der;
};

struct job {
    const struct cli *cli;
    struct rttm reference, hypothesis;
    struct scored *files; /* [reference.file_count] */
    struct der all;
};

static size_t first_turn(const struct rttm *r, uint64_t file)
{
    size_t low = 0, high = r->turn_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (r->turns[middle].file < file)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The turns of one file: they stand one behind the other. */
static const struct rttm_turn *turns_of(const struct rttm *r, uint32_t file, size_t *count)
{
    size_t from = first_turn(r, file);

    *count = first_turn(r, (uint64_t)file + 1) - from;
    return r->turns + from;
}

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, *(char *const *)entry);
}

/* The file of this name; file_count: none. */
static uint32_t file_of(const struct rttm *r, const char *name)
{
    char *const *found = r->file_count > 0
                             ? bsearch(name, r->files, r->file_count, sizeof(*r->files), by_name)
                             : NULL;

    return found ? (uint32_t)(found - r->files) : r->file_count;
}

/* The hypothesis' file that is the reference's; its file_count: none. */
static uint32_t find_partner_file(const struct job *j, uint32_t file)
{
    if (j->reference.file_count == 1 && j->hypothesis.file_count == 1)
        return 0;
    return file_of(&j->hypothesis, j->reference.files[file]);
}

static int score_files(struct job *j, const struct der_params *p, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < j->reference.file_count; i++) {
        struct scored *s = &j->files[i];
        uint32_t other = find_partner_file(j, i);
        size_t r, h;
        const struct rttm_turn *turns = turns_of(&j->reference, i, &r);
        const struct rttm_turn *found = turns_of(&j->hypothesis, other, &h);

        s->name = j->reference.files[i];
        s->heard = h > 0;
        rc = der_score(turns, r, found, h, p, &s->der, err);
        if (rc != 0)
            return err_prefix(err, "%s", s->name);
        der_add(&j->all, &s->der);
        if (!s->heard)
            cli_note("%s: the hypothesis has nobody there; all of its speech counts as missed.",
                     s->name);
    }
    return rc;
}

/* Names of the hypothesis that are no recording of the reference. */
static void say_left_out(const struct job *j)
{
    uint32_t left = 0, last = 0;

    if (j->reference.file_count == 1 && j->hypothesis.file_count == 1)
        return;
    for (uint32_t i = 0; i < j->hypothesis.file_count; i++) {
        if (file_of(&j->reference, j->hypothesis.files[i]) == j->reference.file_count) {
            left++;
            last = i;
        }
    }
    if (left == 1)
        cli_note("%s: not in the reference, and left out.", j->hypothesis.files[last]);
    else if (left > 1)
        cli_note("%u recordings are not in the reference, and left out; one is %s.", left,
                 j->hypothesis.files[last]);
}

/* ---- for people */

static void print_rate(double seconds, double total)
{
    if (total > 0.0)
        printf(" %7.2f %%", 100.0 * seconds / total);
    else
        printf(" %9s", "-");
}

static void print_row(const char *name, const struct der *d)
{
    unsigned columns = cli_columns(stdout);
    bool wide = columns >= 76;
    size_t width = columns - (wide ? NUMBERS_WIDE : NUMBERS_NARROW);
    char *shown = text_fit(name, width);

    printf("%s%*s", shown ? shown : "", shown ? (int)(width - text_width(shown)) : (int)width, "");
    free(shown);
    printf(" %9.1f", d->total);
    if (wide) {
        print_rate(d->missed, d->total);
        print_rate(d->false_alarm, d->total);
        print_rate(d->confusion, d->total);
    }
    print_rate(d->missed + d->false_alarm + d->confusion, d->total);
    putchar('\n');
}

static void print_table(const struct job *j)
{
    unsigned columns = cli_columns(stdout);
    bool wide = columns >= 76;
    char total[64], count[TEXT_LEN];

    printf("%-*s %9s", (int)(columns - (wide ? NUMBERS_WIDE : NUMBERS_NARROW)), "", "seconds");
    if (wide)
        printf(" %9s %9s %9s", "missed", "false", "confused");
    printf(" %9s\n", "DER");
    for (uint32_t i = 0; i < j->reference.file_count && !j->cli->quiet; i++)
        print_row(j->files[i].name, &j->files[i].der);
    if (j->reference.file_count > 1 || j->cli->quiet) {
        snprintf(total, sizeof(total), "all %s", text_count(j->reference.file_count, count));
        print_row(total, &j->all);
    }
}

/* ---- for programs */

static json_t *der_json(const struct der *d)
{
    double rate = der_rate(d);
    json_t *o =
        json_pack("{s:f, s:f, s:f, s:f, s:f}", "total", d->total, "correct", d->correct, "missed",
                  d->missed, "false_alarm", d->false_alarm, "confusion", d->confusion);

    if (o)
        json_object_set_new(o, "rate", isnan(rate) ? json_null() : json_real(rate));
    return o;
}

static void print_json(const struct job *j, const struct der_params *p)
{
    json_t *o = json_object(), *files = json_array();

    for (uint32_t i = 0; i < j->reference.file_count; i++) {
        json_t *file = der_json(&j->files[i].der);

        json_object_set_new(file, "name", json_string(j->files[i].name));
        json_object_set_new(file, "heard", json_boolean(j->files[i].heard));
        json_array_append_new(files, file);
    }
    json_object_set_new(o, "files", files);
    json_object_set_new(o, "all", der_json(&j->all));
    json_object_set_new(o, "collar", json_real(p->collar_s));
    json_object_set_new(o, "skip_overlap", json_boolean(p->skip_overlap));
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

/* ---- the whole */

static int score_and_print(struct job *j, const struct der_params *p)
{
    struct err err = {0};

    j->files = calloc((size_t)j->reference.file_count + 1, sizeof(*j->files));
    if (!j->files) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("score", &err, NULL);
    }
    if (score_files(j, p, &err) != 0)
        return cli_fail("score", &err, NULL);
    say_left_out(j);
    if (j->cli->json)
        print_json(j, p);
    else if (j->reference.file_count > 0)
        print_table(j);
    if (j->all.total > 0.0)
        return cli_flush(EX_OK);
    cli_note("the reference has no speech in it, so that there is no rate. Try another one.");
    return cli_flush(EX_DATAERR);
}

/* Does the text begin with a line of RTTM, of whichever type, or a comment? */
static bool begins_as_rttm(const char *text, size_t len)
{
    static const char *const types[] = {
        "SEGMENT",    "NOSCORE", "NO_RT_METADATA", "LEXEME",   "NON-LEX",
        "NON-SPEECH", "FILLER",  "EDIT",           "IP",       "SU",
        "CB",         "A/P",     "SPEAKER",        "SPKR-INFO"};
    size_t n;

    for (; len > 0 && (*text == 0 || strchr(" \t\r\n", *text)); len--)
        text++; /* lines without a word */
    n = strcspn(text, " \t\r\n");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strlen(types[i]) == n && memcmp(text, types[i], n) == 0)
            return true;
    return n == 0 || strncmp(text, ";;", 2) == 0;
}

/* A transcript in the place of a hypothesis would be one that has nobody: all missed. */
static int read_turns(const char *path, struct rttm *ret, struct err *err)
{
    struct stat info;
    int rc;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return err_set(err, ERR_INPUT, "'%s' is a folder, and --der compares two files", path);
    rc = rttm_read(path, ret, err);
    if (rc == 0 && ret->turn_count == 0 && ret->text && !begins_as_rttm(ret->text, ret->text_len))
        return err_set(err, ERR_INPUT, "'%s' is not an RTTM", path);
    return rc;
}

int score_der(const struct cli *cli, const char *reference, const char *hypothesis,
              const struct der_params *p)
{
    struct job j = {.cli = cli};
    struct err err = {0};
    int rc = read_turns(reference, &j.reference, &err), status;

    if (rc == 0)
        rc = read_turns(hypothesis, &j.hypothesis, &err);
    if (rc == 0)
        status = score_and_print(&j, p);
    else
        status = cli_fail("score", &err,
                          err.code == ERR_INPUT     ? "Try two RTTM files; those of a folder, one "
                                                      "behind the other (cat *.rttm), are one."
                          : err.code == ERR_MISSING ? "Check its name (ls -l)."
                                                    : NULL);
    rttm_free(&j.reference);
    rttm_free(&j.hypothesis);
    free(j.files);
    return status;
}
