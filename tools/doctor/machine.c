/* Processor, memory, and what the kernel lets a decoder be locked in with. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gpu/backend.h"
#include "gpu/precision.h"
#include "tools/doctor/doctor.h"
#include "tools/cli/text.h"
#include "workers/media/sandbox.h"

static void check_processor(struct doctor *d, const struct device *cpu)
{
    struct backend_info info = {0};

    backend_host_info(&info);
    if (cpu->precisions & 1u << PRECISION_BF16)
        doctor_finding(d, FINDING_WELL, "processor", NULL, NULL, "%s, %u threads; %s", info.name,
                       info.threads, info.features);
    else
        doctor_finding(d, FINDING_WELL, "processor", NULL, NULL,
                       "%s, %u threads; %s; no bfloat16 instructions, so float32 is used%s",
                       info.name, info.threads,
                       info.features[0] ? info.features : "no vector extensions known",
                       cpu->precisions & 1u << PRECISION_INT8_F32
                           ? " (--precision int8 is faster, and changes words here and there)"
                           : "");
}

static void check_memory(struct doctor *d)
{
    char a[TEXT_LEN], b[TEXT_LEN];
    struct memory m;

    memory_look(&m);
    if (m.available == 0) {
        doctor_finding(d, FINDING_WARNING, "memory", "1 GB free", "mount /proc",
                       "/proc/meminfo does not say");
        return;
    }
    doctor_finding(d, m.available < 1000000000 ? FINDING_WARNING : FINDING_WELL, "memory",
                   "1 GB free, more for larger models",
                   "end other programs, or use `nightshift run --slots 1 --decoders 1`",
                   m.limit > 0 ? "%s free, of the %s that this container or service may have"
                               : "%s free",
                   text_bytes(m.available, a), text_bytes(m.limit, b));
}

static void check_sandbox(struct doctor *d)
{
    static const char wanted[] = "decoders that can open no file, no socket and start no program";
    char words[SANDBOX_WORDS], lacking[SANDBOX_WORDS];
    struct sandbox_report r = {0};
    struct err err = {0};
    enum finding_state state = FINDING_WELL;

    if (sandbox_check(&r, &err) != 0) {
        doctor_finding(d, FINDING_BROKEN, "sandbox", wanted,
                       "look at `dmesg`; is /proc mounted, fork allowed?", "%s", err.msg);
        return;
    }
    if (sandbox_judge(&r, false, lacking, &err) != 0)
        state = FINDING_BROKEN;
    else if (lacking[0] != 0 || !r.files_refused || !r.network_refused || !r.processes_refused)
        state = FINDING_WARNING;
    sandbox_words(&r, words);
    doctor_finding(
        d, state, "sandbox", wanted,
        "use a kernel with Landlock (5.13 or later) and seccomp; in a container, allow them", "%s",
        words);
}

void doctor_machine(struct doctor *d, const struct device *cpu)
{
    check_processor(d, cpu);
    check_memory(d);
    check_sandbox(d);
}
