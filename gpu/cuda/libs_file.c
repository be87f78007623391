/* Is a shared object complete on the disk?
 *
 * The loader maps what the program headers name without looking at the file's length, and the first
 * touch of a page past its end is SIGBUS. Half-copied libraries are common enough (a full disk, a
 * broken download of 500 MB) to be looked for. */
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/cuda/libs.h"

#define MAX_SEGMENTS 64

static bool segments_inside(FILE *f, const Elf64_Ehdr *header, uint64_t size)
{
    Elf64_Phdr segments[MAX_SEGMENTS];
    size_t n = header->e_phnum;

    if (n == 0 || n > MAX_SEGMENTS || header->e_phentsize != sizeof(segments[0]) ||
        header->e_phoff > size || fseek(f, (long)header->e_phoff, SEEK_SET) != 0 ||
        fread(segments, sizeof(segments[0]), n, f) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (segments[i].p_type == PT_LOAD &&
            (segments[i].p_offset > size || segments[i].p_filesz > size - segments[i].p_offset))
            return false;
    return true;
}

bool libs_file_whole(const char *path)
{
    FILE *f = fopen(path, "re");
    Elf64_Ehdr header;
    bool whole = true; /* what cannot be read, or is no ELF file, the loader refuses itself */
    struct stat st;

    if (!f)
        return true;
    if (fstat(fileno(f), &st) == 0 && fread(&header, sizeof(header), 1, f) == 1 &&
        memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64)
        whole = segments_inside(f, &header, (uint64_t)st.st_size);
    fclose(f);
    return whole;
}
