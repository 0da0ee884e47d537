/* SPDX-License-Identifier: MIT */
/* libcurand: handles and streams; what computes is refused. */
#include "common.h"

REFUSED_IS(204)
