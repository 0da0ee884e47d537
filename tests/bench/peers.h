/* SPDX-License-Identifier: MIT */
/*
 * peers.h - pools to compare with, built the way others describe theirs; not their code.
 *
 * list   a pool of one list of free blocks in address order. A request looks at all of them for the smallest that fits, a
 *        free walks the list to its place and joins its neighbours. What is handed out is in a hash map. Growth doubles.
 * map    an ordered map of free blocks by (size, address), small and large ones apart, neighbours by pointers, and a hash
 *        map from addresses to blocks. Segments of 2 MiB, 20 MiB or a multiple of 2 MiB; a large block is split when more
 *        than 1 MiB is left over. Each block, node and map entry is a malloc of its own.
 *
 * Both have one mutex. Addresses are numbers that stand for nothing. Threads: any. No failure but a lack of host memory,
 * which ends the program.
 */
#ifndef KEDGE_TESTS_BENCH_PEERS_H
#define KEDGE_TESTS_BENCH_PEERS_H

#include <stdint.h>

struct peer {
    uint64_t (*alloc)(struct peer *peer, uint64_t size);
    void (*free)(struct peer *peer, uint64_t ptr);
    uint64_t reserved; /* bytes that it has of the device */
    uint64_t grown;    /* how often it asked for more */
};

struct peer *peer_list(void);
struct peer *peer_map(void);

#endif
