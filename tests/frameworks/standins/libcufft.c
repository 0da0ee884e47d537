/* SPDX-License-Identifier: MIT */
/* libcufft: handles and streams; what computes is refused. */
#include "common.h"

REFUSED_IS(16)
