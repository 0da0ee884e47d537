/* SPDX-License-Identifier: MIT */
/* libcufile: no file is read into the device without the host. */
#include "common.h"

REFUSED_IS(5001) /* CU_FILE_DRIVER_NOT_INITIALIZED */
