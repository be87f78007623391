/* NUMA nodes of a machine that this one is not: its files lie in a folder of the test's. */
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/numa.h"
#include "tests/common/files.h"
#include "tests/common/test.h"

#define ROOT "./numa-root"

static void put_line(const char *path, const char *text)
{
    char full[300], command[400];

    snprintf(full, sizeof(full), ROOT "%s", path);
    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", full);
    assert_int_equal(system(command), 0);
    file_text(full, text);
}

static int clean(void **state)
{
    (void)state;
    return system("rm -rf " ROOT) == 0 ? 0 : -1;
}

/* The first processor that this process may run on. */
static int first_processor(void)
{
    cpu_set_t own;
    int i = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    while (!CPU_ISSET(i, &own))
        i++;
    return i;
}

TEST_SETUP(nodes_of_a_machine, clean)
{
    assert_int_equal(numa_nodes(ROOT), 0);
    put_line("/sys/devices/system/node/node0/cpulist", "0-15,64-79\n");
    assert_int_equal(numa_nodes(ROOT), 1);
    put_line("/sys/devices/system/node/node1/cpulist", "16\n");
    put_line("/sys/devices/system/node/node2/cpulist", "\n"); /* memory alone */
    put_line("/sys/devices/system/node/node3/cpulist", "nonsense\n");
    put_line("/sys/devices/system/node/node63/cpulist", "0-99999999\n");
    assert_true(numa_nodes(ROOT) == (1u | 1u << 1 | UINT64_C(1) << 63));
    assert_int_equal(numa_processors(ROOT, 2), 0);
    assert_int_equal(numa_processors(ROOT, -1), 0);
    assert_int_equal(numa_processors(ROOT, 64), 0);
}

TEST_SETUP(nodes_of_cards, clean)
{
    put_line("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
    put_line("/sys/bus/pci/devices/0000:3c:00.0/numa_node", "-1\n");
    put_line("/sys/bus/pci/devices/0000:3d:00.0/numa_node", "64\n");
    put_line("/sys/numa_node", "1\n");
    assert_int_equal(numa_node_of_card(ROOT, "0000:3b:00.0"), 1);
    assert_int_equal(numa_node_of_card(ROOT, "0000:3c:00.0"), NUMA_NONE);
    assert_int_equal(numa_node_of_card(ROOT, "0000:3d:00.0"), NUMA_NONE);
    assert_int_equal(numa_node_of_card(ROOT, "0000:3e:00.0"), NUMA_NONE);
    assert_int_equal(numa_node_of_card(ROOT, "../../../../"), NUMA_NONE);
    assert_int_equal(numa_node_of_card(ROOT, "../../../sys"), NUMA_NONE);
    assert_int_equal(numa_node_of_card(ROOT, ""), NUMA_NONE);
}

/* In a process of its own: 0, or the line that is wrong. */
static int bind_and_look(int wanted)
{
    unsigned long mask[64] = {0};
    int mode = -1;
    cpu_set_t own;

    if (numa_bind(ROOT, 5) || numa_bind(ROOT, 1)) /* there is none; none of it is ours */
        return __LINE__;
    if (!numa_bind(ROOT, 0))
        return __LINE__;
    if (sched_getaffinity(0, sizeof(own), &own) != 0 || CPU_COUNT(&own) != 1 ||
        !CPU_ISSET(wanted, &own))
        return __LINE__;
    if (numa_processors(ROOT, 0) != 1)
        return __LINE__;
    if (syscall(SYS_get_mempolicy, &mode, mask, 8 * sizeof(mask), NULL, 0) == 0 && mode == 1 &&
        mask[0] != 1)
        return __LINE__; /* where the kernel takes it, it is that node's memory */
    return 0;
}

TEST_SETUP(a_process_is_bound, clean)
{
    int status = -1, wanted = first_processor();
    char list[40];
    pid_t pid;

    snprintf(list, sizeof(list), "%d,4000\n", wanted);
    put_line("/sys/devices/system/node/node0/cpulist", list);
    put_line("/sys/devices/system/node/node1/cpulist", "1000-1010\n");
    pid = fork();
    if (pid == 0)
        _exit(bind_and_look(wanted) % 256);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_MAIN(NULL, NULL)
