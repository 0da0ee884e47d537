# SPDX-License-Identifier: MIT
#
# R57, R58, R79, R84-R87: hints in a program on the simulated device.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    foreach(part alias answers drift hold keep ladder meta modes poison quick release)
        kedge_preload_test(hints_${part} SOURCES hints_${part}_test.c ROUTES dlsym LIBS kedge_read kedge_track)
    endforeach()
    if(TARGET hints_hold_dlsym_test)
        # mmap of the one, sched_yield and nanosleep of the other are the library's
        set_target_properties(hints_hold_dlsym_test hints_poison_dlsym_test PROPERTIES ENABLE_EXPORTS ON)
    endif()
    kedge_preload_test(hints_picks SOURCES hints_picks_test.c ROUTES dlsym LIBS kedge_tools kedge_read kedge_track)
    kedge_preload_test(hints_events SOURCES hints_events_test.c ROUTES dlsym LIBS kedge_read kedge_track
        DEFINES NCCL_PATH="$<TARGET_FILE:touches_nccl>")
    add_dependencies(hints_events_dlsym_test touches_nccl kedge_cli)
    kedge_preload_test(hints_wrong SOURCES hints_wrong_test.c ROUTES dlsym LIBS kedge_read kedge_track
        DEFINES NCCL_PATH="$<TARGET_FILE:touches_nccl>")
    add_dependencies(hints_wrong_dlsym_test touches_nccl)
endif()
