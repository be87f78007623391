/* tools/hub/hub_list.h - what a model on the hub consists of, and which of it is fetched. Pure. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_LIST_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tools/hub/hub.h"

/* "org/name" as the hub allows it. ERR_USAGE. */
int hub_id_check(const char *id, struct err *err);
/* A branch, tag or commit ("refs/pr/3" too). ERR_USAGE. */
int hub_revision_check(const char *revision, struct err *err);
/* 40 hex digits. */
bool hub_is_commit(const char *s);

struct hub_list {
    char commit[HUB_COMMIT_LEN];
    char **file; /* those with a plain name, in the model's own folder, and of hub_small_files those
                  * that lie below it; no other is ever asked for */
    uint32_t file_count;
};
/* The answer of /api/models/ID/revision/REVISION. ERR_PROTOCOL. */
int hub_list_parse(const char *json, size_t len, struct hub_list *ret, struct err *err);
void hub_list_free(struct hub_list *l);
bool hub_list_has(const struct hub_list *l, const char *file);

/* The small files that belong to a model, those in front that must be there: config.json,
 * tokenizer.json. Ends with NULL. */
#define HUB_SMALL_NEEDED 2
extern const char *const hub_small_files[];

/* In which form the weights are fetched; the first that the list has, in the order in which they
 * are looked for when a model is loaded (weight_layout.h). */
struct hub_weights {
    const char *file; /* one file, or the index of the shards; static */
    bool index, torch;
};
/* ERR_MODEL: there are none that we read, or a needed small file is not there. */
int hub_list_choose(const struct hub_list *l, struct hub_weights *ret, struct err *err);
/* Whether config.json is of a model that some stage takes, before gigabytes of another are fetched.
 * ERR_MODEL. */
int hub_config_check(const char *json, size_t len, struct err *err);

#endif
