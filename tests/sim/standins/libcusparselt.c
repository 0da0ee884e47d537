/* SPDX-License-Identifier: MIT */
/* libcusparseLt: handles and streams; what computes is refused. */
#include "common.h"

REFUSED_IS(10)
