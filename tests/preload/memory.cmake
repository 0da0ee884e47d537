# SPDX-License-Identifier: MIT
#
# Rules about what memory is whose: allocation APIs, classes, alignment, queries, pools, and what other processes are shown.
if(TARGET simcuda)
    kedge_preload_test(memory_told SOURCES memory_told_test.c ROUTES gpa LIBS kedge_read kedge_track)
    kedge_preload_test(memory SOURCES memory_test.c ROUTES dlsym gpa ENVIRONMENT "SIMCUDA_DEVICES=2")
    kedge_preload_test(bounds SOURCES bounds_test.c ROUTES dlsym)
    kedge_preload_test(memory_ipc SOURCES memory_ipc_test.c ROUTES dlsym LIBS kedge_read)
    kedge_preload_test(memory_shared SOURCES memory_shared_test.c ROUTES dlsym ENVIRONMENT "KEDGE_POOL=sync=mapped")
    if(TARGET memory_shared_dlsym_test)
        set_target_properties(memory_shared_dlsym_test PROPERTIES ENABLE_EXPORTS ON) # its read is the library's
    endif()
endif()
