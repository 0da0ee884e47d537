/* SPDX-License-Identifier: MIT */
/*
 * models.h - the allocators that `kedge whatif` does not show, for gates on kedge's pool.
 *
 * Models as those of tools/replay/peer.h: Paddle's allocator, RMM's pool, and the driver's own behind cudaMallocAsync.
 *
 *     models_add ─► whatif_policies = kedge's own, PyTorch, no pool ─ paddle ─ rmm ─ async
 */
#ifndef KEDGE_TESTS_MODELS_H
#define KEDGE_TESTS_MODELS_H

#include "tools/replay/peer.h"

extern const struct peer peer_paddle, peer_rmm, peer_async;

/* Appends them to the table of whatif.h. Once, before anything is played. */
void models_add(void);

#endif
