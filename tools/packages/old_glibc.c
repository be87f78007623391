/* Functions of glibc 2.36 that Debian 12's libraries need, for systems whose glibc is 2.34 or later
 * (tools/dev/release, the archive with its libraries; libnightshift-old-glibc.so). A symbol without
 * a version that is found before the C library's stands for any version: so nothing here may have
 * the name of a function that this library calls itself. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* The kernel gives up to 256 bytes as a whole, and never fails once it has been seeded. */
void arc4random_buf(void *p, size_t n);
uint32_t arc4random(void);

void arc4random_buf(void *p, size_t n)
{
    unsigned char *at = p;

    while (n > 0) {
        ssize_t got = getrandom(at, n < 256 ? n : 256, 0);

        if (got < 0 && errno != EINTR)
            abort();
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        }
    }
}

uint32_t arc4random(void)
{
    uint32_t value;

    arc4random_buf(&value, sizeof(value));
    return value;
}
