/* findings MODULE [--thorough]: everything that the CUDA module says of this machine, one line
 * each:
 *
 *     check <tab> state <tab> name <tab> found <tab> wanted <tab> todo
 *     devices <tab> code <tab> number, or the sentence
 *     open <tab> code <tab> name, or the sentence
 *
 * Exit status 0 when the module could be asked, whatever it said; so a crash is seen as one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/cuda_module.h"

static int worst, out_of_order;

static void print(void *arg, const struct cuda_finding *f)
{
    (void)arg;
    if (f->state > worst)
        worst = f->state;
    out_of_order |= strlen(f->name) > 14 || (f->state == 0) != (f->todo[0] == '\0') ||
                    (f->state == 0) != (f->wanted[0] == '\0');
    printf("check\t%d\t%s\t%s\t%s\t%s\n", f->state, f->name, f->found, f->wanted, f->todo);
    fflush(stdout); /* a crash must not swallow what was said before it */
}

int main(int argc, char **argv)
{
    bool thorough = argc > 2 && strcmp(argv[2], "--thorough") == 0;
    const struct cuda_module *m;
    struct cuda_device devices[8];
    struct cuda_options options = {0};
    struct backend *be = NULL;
    struct err err = {0};
    uint32_t n = 0;
    void *handle;
    int rc;

    if (argc < 2 || !(handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) ||
        !(m = dlsym(handle, CUDA_MODULE_SYMBOL))) {
        fprintf(stderr, "findings: %s\n", argc < 2 ? "name the module" : dlerror());
        return 2;
    }
    if (m->abi != CUDA_MODULE_ABI) {
        fprintf(stderr, "findings: the module is of another version\n");
        return 2;
    }
    rc = m->check(thorough ? CUDA_CHECK_ALL : CUDA_CHECK_QUICK, print, NULL);
    if (rc != worst || out_of_order) {
        fprintf(stderr, "findings: check returned %d, its worst finding is %d%s\n", rc, worst,
                out_of_order ? "; a finding is not as cuda_module.h has it" : "");
        return 3;
    }
    rc = m->devices(devices, 8, &n, &err);
    printf("devices\t%d\t", rc);
    puts(rc == 0 ? devices[0].name : err.msg);
    rc = m->open("0", &options, &be, &err);
    printf("open\t%d\t%s\n", rc, rc == 0 ? be->info.name : err.msg);
    backend_close(be);
    return 0;
}
