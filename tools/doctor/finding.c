/* How a finding looks: for people, and as JSON. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/doctor/doctor.h"
#include "tools/cli/text.h"

#define NAME_COLUMN 8
#define TEXT_COLUMN 23 /* what was found begins here */
#define PART_COLUMN 30 /* what is wanted, behind its label */

static const char *const states[] = {"ok", "warning", "broken"};

static void print_part(const char *label, const char *s)
{
    printf("%*s%-*s", TEXT_COLUMN, "", PART_COLUMN - TEXT_COLUMN, label);
    cli_wrap(stdout, s, PART_COLUMN, PART_COLUMN);
}

static void print(enum finding_state state, const char *name, const char *found, const char *wanted,
                  const char *todo)
{
    static const char *const colours[] = {"32", "33", "31"};

    cli_paint(stdout, colours[state], states[state]);
    printf("%*s%-*s", NAME_COLUMN - (int)strlen(states[state]), "", TEXT_COLUMN - NAME_COLUMN,
           name);
    cli_wrap(stdout, found, TEXT_COLUMN, TEXT_COLUMN);
    if (state != FINDING_WELL && wanted && wanted[0] != 0)
        print_part("wanted", wanted);
    if (state != FINDING_WELL && todo && todo[0] != 0)
        print_part("do", todo);
    fflush(stdout); /* the next one may take a while */
}

void doctor_finding(struct doctor *d, enum finding_state state, const char *name,
                    const char *wanted, const char *todo, const char *fmt, ...)
{
    char text[700], *found;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    found = utf8_display(text, strlen(text)); /* it may hold names of files */
    d->bad += state == FINDING_BROKEN;
    d->warnings += state == FINDING_WARNING;
    if (d->rows)
        json_array_append_new(d->rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", name, "state",
                                                 states[state], "found", found ? found : "",
                                                 "wanted", wanted ? wanted : "", "do",
                                                 state != FINDING_WELL && todo ? todo : ""));
    else
        print(state, name, found ? found : "", wanted, todo);
    free(found);
}
