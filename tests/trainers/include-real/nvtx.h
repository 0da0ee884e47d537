/* SPDX-License-Identifier: MIT */
/* The toolkit's NVTX under the name that the trainers include. */
#ifndef KEDGE_TRAINERS_REAL_NVTX_H
#define KEDGE_TRAINERS_REAL_NVTX_H

#include <nvtx3/nvToolsExt.h>

#endif
