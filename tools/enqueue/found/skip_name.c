#include "tools/enqueue/found/skip_name.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Windows and servers spell theirs in several ways: case does not matter. */
static const char *const trash_folders[] = {
    "$RECYCLE.BIN",
    "RECYCLER",
    "#recycle",
    "@Recycle",
    ".recycle",
    ".Trash",
    ".Trashes",
    ".Trash-*",
    "lost+found",
    "found.000",
    "Network Trash Folder",
};
/* Deleted while somebody had them open (NFS, FUSE), or on a telephone. */
static const char *const trash_files[] = {".nfs????????????????*", ".fuse_hidden*", ".trashed-*"};

static const char *const system_folders[] = {
    /* Apple's, on foreign disks and in archives */
    ".AppleDouble",
    ".AppleDB",
    ".AppleDesktop",
    "__MACOSX",
    ".Spotlight-V100",
    ".fseventsd",
    ".DocumentRevisions-V100",
    ".TemporaryItems",
    "Temporary Items",
    "TheVolumeSettingsFolder",
    /* Windows' */
    "System Volume Information",
    /* Synology's and QNAP's */
    "@eaDir",
    "@tmp",
    "#snapshot",
    "@Recently-Snapshot",
    ".@__thumb",
    "@Transcode",
    ".@__qini",
    /* snapshots: all that is there, once more */
    ".snapshot",
    ".snapshots",
    "~snapshot",
    ".zfs",
};
static const char *const system_files[] = {"._*", "*@SynoResource", "*@SynoEAStream"};

static const char *const unfinished_folders[] = {".rsync-partial", ".~tmp~", "*.download"};
static const char *const unfinished_files[] = {
    "*.part",       "*.partial", "*.crdownload", "*.download", "*.filepart",
    "*.opdownload", "*.tmp",     "*.temp",       "*.!ut",      "*.!qB",
    "*.!bt",        "*.bc!",     "*.aria2",      "*.!sync",    "*.unfinished",
    "*.part-Frag*", "*~",        "~$*",          ".in.*.",     "~syncthing~*",
};

/* '*' and '?' as a shell has them, ASCII case aside. The lists have at most two stars. */
static bool matches_pattern(const char *pattern, const char *name, size_t len)
{
    for (; *pattern && *pattern != '*'; pattern++, name++, len--)
        if (len == 0 ||
            (*pattern != '?' && tolower((unsigned char)*pattern) != tolower((unsigned char)*name)))
            return false;
    if (!*pattern)
        return len == 0;
    if (!strchr(pattern + 1,
                '*')) { /* the rest is the name's end, or it is not: nearly all are so */
        const size_t rest = strlen(pattern + 1);

        return rest <= len && matches_pattern(pattern + 1, name + len - rest, rest);
    }
    for (size_t at = 0; at <= len; at++)
        if (matches_pattern(pattern + 1, name + at, len - at))
            return true;
    return false;
}

static bool fits_any(const char *const *patterns, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (matches_pattern(patterns[i], name, len))
            return true;
    return false;
}
#define FITS_ANY(patterns, name, len) \
    fits_any(patterns, sizeof(patterns) / sizeof(patterns[0]), name, len)

/* rsync's ".NAME.XXXXXX" */
static bool is_of_rsync(const char *name, size_t len)
{
    if (len < 9 || name[0] != '.' || name[len - 7] != '.')
        return false;
    for (size_t i = len - 6; i < len; i++)
        if (!isalnum((unsigned char)name[i]))
            return false;
    return true;
}

/* The home folder's trash is ".local/share/Trash". */
static bool is_home_trash(const char *path, size_t at, size_t len)
{
    return len == 5 && strncmp(path + at, "Trash", 5) == 0 && at >= 6 &&
           strncmp(path + at - 6, "share/", 6) == 0 && (at == 6 || path[at - 7] == '/');
}

/* The name of `len` bytes at path[at]. */
static enum skip_reason classify_name(const char *path, size_t at, size_t len, bool directory)
{
    const char *name = path + at;

    if (len == 0 || (len == 1 && name[0] == '.') || (len == 2 && strncmp(name, "..", 2) == 0))
        return SKIP_NONE;
    if (directory ? FITS_ANY(trash_folders, name, len) || is_home_trash(path, at, len) ||
                        (len == 8 && strncmp(name, "RECYCLED", 8) == 0)
                  : FITS_ANY(trash_files, name, len))
        return SKIP_TRASH;
    if (directory ? FITS_ANY(system_folders, name, len) : FITS_ANY(system_files, name, len))
        return SKIP_SYSTEM;
    if (directory ? FITS_ANY(unfinished_folders, name, len)
                  : FITS_ANY(unfinished_files, name, len) || is_of_rsync(name, len))
        return SKIP_UNFINISHED;
    return name[0] == '.' ? SKIP_HIDDEN : SKIP_NONE;
}

const char *skip_word(enum skip_reason reason)
{
    static const char *const words[SKIP_REASONS] = {"", "trash", "system", "unfinished", "hidden"};

    return words[reason];
}

enum skip_reason skip_name(const char *path, bool directory)
{
    const char *slash = strrchr(path, '/');
    const size_t at = slash ? (size_t)(slash - path) + 1 : 0;

    return classify_name(path, at, strlen(path + at), directory);
}

enum skip_reason skip_member(const char *member, bool hidden)
{
    for (size_t at = 0;;) {
        const size_t len = strcspn(member + at, "/");
        const enum skip_reason reason = classify_name(member, at, len, member[at + len] == '/');

        if (reason != SKIP_NONE && !(hidden && reason == SKIP_HIDDEN))
            return reason;
        if (member[at + len] == 0)
            return SKIP_NONE;
        at += len + 1;
    }
}
