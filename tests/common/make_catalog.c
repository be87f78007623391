/* make_catalog FILE - an empty catalog at FILE, in place of what was there. */
#include <stdio.h>
#include <unistd.h>

#include "store/store.h"

int main(int argc, char **argv)
{
    struct store *st = NULL;
    struct err e = {0};

    if (argc != 2)
        return 64;
    unlink(argv[1]);
    if (store_open(argv[1], STORE_WRITE, &st, &e) < 0) {
        fprintf(stderr, "make_catalog: %s\n", e.msg);
        return 1;
    }
    store_close(st);
    return 0;
}
