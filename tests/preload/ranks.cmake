# SPDX-License-Identifier: MIT
kedge_preload_test(ranks SOURCES ranks_test.c ROUTES dlsym)
