# SPDX-License-Identifier: MIT
kedge_unit_test(capture SOURCES capture_test.c LIBS kedge_track kedge_read kedge_alloc)
