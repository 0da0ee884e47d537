# SPDX-License-Identifier: MIT
kedge_preload_test(ranks SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/ranks_test.c ROUTES dlsym)
