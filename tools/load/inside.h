/* SPDX-License-Identifier: MIT */
/*
 * inside.h - what the objects of a run say of tensors in segments of PyTorch's own allocator.
 *
 *     capture of the run: data, walks by address ─┐
 *     its record of tensors (area F), as a load ──┴─► the same, of the tensor that lay there then
 *
 * Segments are the blocks of such a run, so its looks (preload/kinds) and walks (preload/held) tell addresses inside
 * of blocks. A tensor has an address for a while only; whose it was follows from the time.
 *
 * Threads: none. Memory: vec.h; the tensors' capture owns what it gets.
 */
#ifndef KEDGE_TOOLS_INSIDE_H
#define KEDGE_TOOLS_INSIDE_H

#include "tools/load/load.h"

/*
 * Gives the tensors' load, which has none of its own, the run's data, walks and holders. The call
 * sites are the tensors'.
 */
void inside_join(const struct load *run, struct load *tensors);

/*
 * By block of a load: the text of the walk's row that counts it (struct read_held), of several walks
 * the last one's; NULL: no row of storages that are as large as their blocks, all of which are found.
 * The caller frees the list, not its texts.
 */
const char **inside_told(const struct load *load);

#endif
