/* SPDX-License-Identifier: MIT */
#ifndef KEDGE_TESTS_UNIT_WHERE_LIB_H
#define KEDGE_TESTS_UNIT_WHERE_LIB_H

#include "alloc/base/types.h"

typedef void (*ask_fn)(uint64_t size, struct tag *ret_tag);
typedef void (*lib_fn)(ask_fn ask, struct tag *ret_tag);

__attribute__((visibility("default"))) void lib_ask(ask_fn ask, struct tag *ret_tag);
__attribute__((visibility("default"))) void lib_ask_elsewhere(ask_fn ask, struct tag *ret_tag);

#endif
