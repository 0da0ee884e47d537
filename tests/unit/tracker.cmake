# SPDX-License-Identifier: MIT
kedge_unit_test(capture SOURCES capture_test.c LIBS kedge_track kedge_read kedge_alloc)
kedge_unit_test(hintfile SOURCES hintfile_test.c LIBS kedge_read)
