#include "tools/parts/part_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (1u << 20)
#define HOST_LEN 65
#define WRITING ".writing-"

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "out of memory"); }

char *part_path(const char *dir, const char *name, struct err *err)
{
    char *ret = NULL;

    if (asprintf(&ret, "%s/%s", dir, name) < 0) {
        no_memory(err);
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

/* ------------------------------------------------------------------------------------- copying */

static int write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t did = write(fd, data, n);

        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return -1;
        data += did;
        n -= (size_t)did;
    }
    return 0;
}

static int copy_bytes(int in, int out, const char *from, const char *to, struct err *err)
{
    char *block = malloc(BLOCK);
    int rc = block ? 0 : no_memory(err);

    while (rc == 0) {
        ssize_t n = read(in, block, BLOCK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, errno, "reading '%s'", from);
        else if (n == 0)
            break;
        else if (write_all(out, block, (size_t)n) != 0)
            rc = err_sys(err, errno, "writing '%s'", to);
    }
    free(block);
    if (rc == 0 && fsync(out) != 0)
        rc = err_sys(err, errno, "writing '%s'", to);
    return rc;
}

int part_copy(const char *from, const char *to, struct err *err)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out, rc;

    if (in < 0)
        return err_sys(err, errno, "'%s'", from);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    rc = out < 0 ? err_sys(err, errno, "'%s'", to) : copy_bytes(in, out, from, to, err);
    close(in);
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = err_sys(err, errno, "writing '%s'", to);
    if (rc < 0 && out >= 0)
        unlink(to);
    return rc;
}

/* That a name is another file's now must outlive a power cut, too. */
static int sync_folder_of(const char *path, struct err *err)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, rc = 0;

    if (!copy)
        return no_memory(err);
    /* Some file systems cannot sync a folder, and need it not. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP))
        rc = err_sys(err, errno, "the folder of '%s'", path);
    if (fd >= 0)
        close(fd);
    free(copy);
    return rc;
}

int part_beside(const char *local, const char *target, char **ret, struct err *err)
{
    char host[HOST_LEN] = "", *beside = NULL;
    int rc;

    gethostname(host, sizeof(host) - 1);
    if (asprintf(&beside, "%s" WRITING "%s-%ld", target, host, (long)getpid()) < 0)
        return no_memory(err);
    unlink(beside);
    rc = part_copy(local, beside, err);
    if (rc < 0)
        free(beside);
    else
        *ret = beside;
    return rc;
}

int part_replace(char *beside, const char *target, struct err *err)
{
    int rc = 0;

    if (rename(beside, target) != 0) {
        rc = err_sys(err, errno, "'%s'", target);
        unlink(beside);
    }
    free(beside);
    return rc == 0 ? sync_folder_of(target, err) : rc;
}

int part_publish(const char *local, const char *target, struct err *err)
{
    char *beside = NULL;
    int rc = part_beside(local, target, &beside, err);

    return rc == 0 ? part_replace(beside, target, err) : rc;
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
            strncmp(e->d_name + n, WRITING, strlen(WRITING)) == 0)
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
        return no_memory(err);
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
        rc = err_set(err, ERR_MISSING, "the folder '%s' has no parts (part-*.db)", dir);
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
