/* SPDX-License-Identifier: MIT */
/* libnvshmem_host: one process has nobody to share memory with. */
#include "common.h"

REFUSED_IS(7) /* NVSHMEMX_ERROR_NOT_SUPPORTED */
