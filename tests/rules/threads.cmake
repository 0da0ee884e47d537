# SPDX-License-Identifier: MIT
#
# The whole library inside a program, so that sanitizers see it: the race test of issue 3, in every preset.
if(TARGET simcuda)
    # The hints of a run stay until its end, behind pointers in memory that the leak checker does not look at.
    kedge_unit_test(threads NAME rules.threads SOURCES threads_test.c ../preload/client.c
        LIBS kedge_exports kedge_track kedge_alloc simcuda DEFINES CLIENT_LINKED LABELS race TIMEOUT 300
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim" "SIMCUDA_MEMORY=4G" "SIMCUDA_DEVICES=2" "TEST_ROUTE=linked"
        "ASAN_OPTIONS=abort_on_error=0:detect_leaks=0")
endif()
