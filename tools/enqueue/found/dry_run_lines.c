#include "tools/enqueue/found/dry_run_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"

/* Columns of the reason; the path comes last, since it may be of any length. */
#define WHY_WIDTH 17

void dry_run_lines_open(const struct dry_run_lines *l)
{
    if (l->json)
        fputs("{\n  \"listed\": [", stdout);
}

void dry_run_lines_close(const struct dry_run_lines *l)
{
    if (l->json)
        fputs(l->lines ? "\n  ],\n" : "],\n", stdout);
    else if (l->lines)
        putchar('\n');
}

static void add_json(const struct dry_run_lines *l, const struct dry_run_line *line,
                     const char *path, const char *member)
{
    json_t *o = json_pack("{s:b, s:s, s:s, s:b}", "taken", (int)line->taken, "why", line->why,
                          "path", path, "directory", (int)line->directory);

    if (o && member[0])
        json_object_set_new(o, "member", json_string(member));
    if (o && line->recordings)
        json_object_set_new(o, "recordings", json_integer((json_int_t)line->recordings));
    if (o && line->error)
        json_object_set_new(o, "error", json_string(line->error));
    fputs(l->lines ? ",\n    " : "\n    ", stdout);
    if (o)
        json_dumpf(o, stdout, JSON_COMPACT);
    json_decref(o);
}

void dry_run_lines_add(struct dry_run_lines *l, const struct dry_run_line *line)
{
    char *path = utf8_display(line->path, line->path_len);
    char *member = utf8_display_nth(line->member, strlen(line->member), line->nth);

    if (path && member && l->json) {
        add_json(l, line, path, member);
    } else if (path && member) {
        printf("%s  %-*s  %s%s%s%s", line->taken ? "take" : "skip", WHY_WIDTH, line->why, path,
               line->directory ? "/" : "", member[0] ? "//" : "", member);
        if (line->recordings > 1)
            printf(" (%u recordings)", line->recordings);
        putchar('\n');
    }
    l->lines += path && member;
    free(path);
    free(member);
}
