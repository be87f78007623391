#include "tools/parts/part_file.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/replace.h"

char *part_path(const char *dir, const char *name, struct err *err)
{
    char *ret = NULL;

    if (asprintf(&ret, "%s/%s", dir, name) < 0) {
        err_no_memory(err, NULL);
        return NULL;
    }
    return ret;
}

char *part_name(const char *dir, uint32_t number, const char *suffix, struct err *err)
{
    char name[64];

    snprintf(name, sizeof(name), "part-%04u%s", number, suffix);
    return part_path(dir, name, err);
}

/* ----------------------------------------------------------------------------------- workplace */

int part_workplace(char **ret, struct err *err)
{
    static const char *const places[] = {"SLURM_TMPDIR", "TMPDIR"};
    const char *base = NULL;
    char *dir;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !(base && *base); i++)
        base = getenv(places[i]);
    dir = part_path(base && *base ? base : "/tmp", "nightshift-part-XXXXXX", err);
    if (!dir)
        return err->code;
    if (!mkdtemp(dir)) {
        err_sys(err, errno, "a folder '%s'", dir);
        free(dir);
        return err->code;
    }
    *ret = dir;
    return 0;
}

void part_workplace_leave(char *dir)
{
    DIR *d = dir ? opendir(dir) : NULL;
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    if (dir)
        rmdir(dir);
    free(dir);
}

/* ---------------------------------------------------------------------------------- publishing */

int part_beside(const char *local, const char *target, char **ret, struct err *err)
{
    char *beside = NULL;
    int rc = replace_beside(target, &beside, err);

    if (rc == 0)
        rc = replace_copy(local, beside, err);
    if (rc < 0)
        free(beside);
    else
        *ret = beside;
    return rc;
}

int part_publish(const char *local, const char *target, struct err *err)
{
    char *beside = NULL;
    int rc = part_beside(local, target, &beside, err);

    return rc == 0 ? replace_with(beside, target, err) : rc;
}

void part_fence(const char *target)
{
    char *copy = strdup(target), *copy2 = strdup(target);
    const char *name = copy ? basename(copy) : "";
    DIR *d = copy2 ? opendir(dirname(copy2)) : NULL;
    size_t n = strlen(name);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, name, n) == 0 &&
            strncmp(e->d_name + n, REPLACE_BESIDE, strlen(REPLACE_BESIDE)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    free(copy);
    free(copy2);
}

/* ------------------------------------------------------------------------------------ operands */

static int list_add(struct part_list *l, char *path, struct err *err)
{
    char **more = path ? realloc(l->paths, (l->count + 1) * sizeof(*more)) : NULL;

    if (!more) {
        free(path);
        return err_no_memory(err, NULL);
    }
    l->paths = more;
    l->paths[l->count++] = path;
    return 0;
}

static int is_part(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return strncmp(e->d_name, "part-", 5) == 0 && n > 8 && strcmp(e->d_name + n - 3, ".db") == 0;
}

static int list_folder(struct part_list *l, const char *dir, struct err *err)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_part, alphasort), rc = 0;

    if (n < 0)
        return err_sys(err, errno, "'%s'", dir);
    if (n == 0)
        rc =
            err_set(err, ERR_MISSING,
                    "the folder '%s' has no parts (part-*.db): `nightshift split` makes them", dir);
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = list_add(l, part_path(dir, names[i]->d_name, err), err);
        free(names[i]);
    }
    free(names);
    return rc;
}

int part_list_make(char *const *operands, int n, struct part_list *ret, struct err *err)
{
    struct part_list l = {0};
    struct stat info;
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        if (stat(operands[i], &info) != 0)
            rc = err_sys(err, errno, "'%s'", operands[i]);
        else if (S_ISDIR(info.st_mode))
            rc = list_folder(&l, operands[i], err);
        else
            rc = list_add(&l, strdup(operands[i]), err);
    if (rc < 0)
        part_list_free(&l);
    else
        *ret = l;
    return rc;
}

void part_list_free(struct part_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->paths[i]);
    free(l->paths);
    *l = (struct part_list){0};
}
