/* base/numa.h - the NUMA nodes of the machine: which processors each has, which node a card of the
 * PCI bus is on, and binding this process to one. By files of the kernel and its own calls.
 *
 * root: put before every path that is read; "" for this machine. */
#ifndef NIGHTSHIFT_BASE_NUMA_H
#define NIGHTSHIFT_BASE_NUMA_H

#include <stdbool.h>
#include <stdint.h>

#define NUMA_NONE (-1)

/* Nodes with processors, as a set of bits: bit i is node i. 0: not known. Nodes from 64 on are left
 * out. */
uint64_t numa_nodes(const char *root);
/* How many processors of the node this process may run on; 0: none, or not known. */
uint32_t numa_processors(const char *root, int node);
/* The node of a card, by its place on the bus ("0000:3b:00.0"); NUMA_NONE: not known. */
int numa_node_of_card(const char *root, const char *place);
/* From here on this thread, and threads and processes that it starts, run on the node's processors
 * alone, of those that they may run on, and get memory there while there is any. Before the process
 * has other threads. False: it has none of these, and nothing was changed. */
bool numa_bind(const char *root, int node);

#endif
