/* tools/parts/part_file.h - parts as files: SQLite works on a disk of this machine, and what other
 * machines see comes and goes as one whole file.
 *
 * Main thread, but part_publish: any. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_PART_FILE_H
#define NIGHTSHIFT_TOOLS_PARTS_PART_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A new folder below $SLURM_TMPDIR, else $TMPDIR, else /tmp. Newly allocated. */
int part_workplace(char **ret, struct err *err);
/* Removes it with the files in it, and frees it. NULL is fine. */
void part_workplace_leave(char *dir);

/* "DIR/NAME", newly allocated; NULL: no memory (*err). */
char *part_path(const char *dir, const char *name, struct err *err);
/* "DIR/part-0007SUFFIX", likewise. */
char *part_name(const char *dir, uint32_t number, const char *suffix, struct err *err);

/* `target` holds the bytes of `local`, or on an error what it held: part_beside and replace_with.
 */
int part_publish(const char *local, const char *target, struct err *err);
/* Writes them beside `target`, and syncs them. *ret: where, newly allocated, for replace_with. */
int part_beside(const char *local, const char *target, char **ret, struct err *err);
/* Removes what lies beside `target` in writing: what others would replace it with later. They fail
 * with ERR_MISSING. Also what was killed has left. */
void part_fence(const char *target);

struct part_list { /* owned: part_list_free */
    char **paths;
    size_t count;
};
/* Operands: files, and of folders the part-*.db in them, by name. ERR_MISSING: nothing is there, or
 * a folder without any. */
int part_list_make(char *const *operands, int n, struct part_list *ret, struct err *err);
void part_list_free(struct part_list *l);

#endif
