# SPDX-License-Identifier: MIT
#
# Blocks that go out and come in, on the simulated device: as soon as it can, and as late as it may.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    foreach(part calls kept ends managed)
        kedge_preload_test(evict_${part} SOURCES evict_${part}_test.c ROUTES dlsym LIBS kedge_read kedge_track
            DEFINES NCCL_PATH="$<TARGET_FILE:fake_nccl>")
        add_dependencies(evict_${part}_dlsym_test fake_nccl)
    endforeach()
    foreach(part calls ends managed)
        kedge_preload_test(evict_${part}_late SOURCES evict_${part}_test.c ROUTES dlsym LIBS kedge_read kedge_track
            DEFINES NCCL_PATH="$<TARGET_FILE:fake_nccl>" ENVIRONMENT "SIMCUDA_SCHED=lazy")
    endforeach()
    kedge_preload_test(evict_nccl SOURCES evict_nccl_test.c ROUTES dlsym LIBS kedge_read kedge_track
        DEFINES NCCL_PATH="$<TARGET_FILE:touches_nccl>")
    add_dependencies(evict_nccl_dlsym_test touches_nccl)
    if(TARGET simnccl)
        kedge_preload_test(underway SOURCES underway_test.c ROUTES dlsym LIBS kedge_read kedge_track
            DEFINES NCCL_PATH="$<TARGET_FILE:touches_nccl>" SIM_NCCL_PATH="$<TARGET_FILE:simnccl>")
        add_dependencies(underway_dlsym_test touches_nccl simnccl)
    endif()
endif()
