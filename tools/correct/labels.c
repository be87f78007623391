#include "tools/correct/labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

void labels_free(struct labels *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->list[i]);
    free(l->list);
    *l = (struct labels){0};
}

int labels_add(struct labels *l, const char *name, struct err *err)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->list[i], name) == 0)
            return 0;
    if (name[0] == 0)
        return 0;
    if (!list_grow(&l->list, &l->capacity, l->count, sizeof(*l->list)))
        return err_set(err, ERR_NOMEM, "out of memory");
    l->list[l->count] = strdup(name);
    return l->list[l->count++] ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* Bytes of the label that s begins with; 0: none. */
static size_t label_length(const char *s, const char *name)
{
    size_t n = strlen(name), bracket = *s == '[';

    if (strncmp(s + bracket, name, n) != 0 || s[bracket + n] != (bracket ? ']' : ':'))
        return 0;
    n += bracket + 1;
    return n + strspn(s + n, " \t\n");
}

void labels_strip(const struct labels *l, struct cues *cues)
{
    for (size_t i = 0; i < cues->count; i++) {
        struct cue *cue = &cues->list[i];
        size_t n = 0;

        for (size_t k = 0; n == 0 && k < l->count; k++)
            n = label_length((const char *)cues->text.data + cue->at, l->list[k]);
        cue->at += n;
        cue->len -= n;
    }
}
