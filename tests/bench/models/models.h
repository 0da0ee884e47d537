/* SPDX-License-Identifier: MIT */
/*
 * models.h - the allocators that `kedge whatif` does not show, for gates on kedge's pool.
 *
 * Models as those of tools/replay/peer.h. The head of each file has its source and what is left
 * out: Paddle's allocators, RMM's pool, the driver's own behind cudaMallocAsync, PyTorch with two
 * of its settings, GMLake, the plans of STAlloc. And kedge's pool with remap=lazy and remap=never.
 *
 *     models_add ─► whatif_policies = kedge's own, PyTorch, no pool ─ paddle ─ rmm ─ ... ─ kedge-never
 */
#ifndef KEDGE_TESTS_MODELS_H
#define KEDGE_TESTS_MODELS_H

#include "tools/replay/peer.h"

extern const struct peer peer_paddle, peer_paddle_vmm, peer_paddle_vmm_full, peer_rmm, peer_async,
        peer_split, peer_gmlake, peer_stalloc;

/*
 * What peer_split plays with, from its first request on: max_split_size,
 * garbage_collection_threshold, the device's bytes.
 */
extern struct peer_split_settings {
    uint64_t most;
    double threshold;
    uint64_t limit;
} peer_split_settings;

/* Appends them to the table of whatif.h. Once, before anything is played. */
void models_add(void);

#endif
