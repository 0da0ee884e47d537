# SPDX-License-Identifier: MIT
#
# R12, R24, R80: pins, on the simulated device, and by a libnccl of our own for what NCCL registers.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    add_library(fake_nccl SHARED graphs_nccl_lib.c)
    target_link_libraries(fake_nccl PRIVATE kedge_flags)
    set_target_properties(fake_nccl PROPERTIES C_VISIBILITY_PRESET default OUTPUT_NAME nccl
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload/nccl)
    add_library(nccl_user MODULE graphs_nccl_user.c)
    target_link_libraries(nccl_user PRIVATE kedge_flags fake_nccl)
    set_target_properties(nccl_user PROPERTIES C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload/nccl)
    kedge_preload_test(graphs_pins SOURCES graphs_pins_test.c ROUTES dlsym LIBS kedge_read
        DEFINES NCCL_PATH="$<TARGET_FILE:fake_nccl>" NCCL_USER_PATH="$<TARGET_FILE:nccl_user>")
    add_dependencies(graphs_pins_dlsym_test fake_nccl nccl_user)
    kedge_preload_test(graphs_ends SOURCES graphs_ends_test.c ROUTES dlsym LIBS kedge_read)
    foreach(which 20 30)
        add_library(own_nccl_${which} MODULE own_nccl_lib.c)
        target_link_libraries(own_nccl_${which} PRIVATE kedge_flags)
        target_compile_definitions(own_nccl_${which} PRIVATE WHICH=${which})
        # a call is known by where it returns to, and a jump returns somewhere else (preload/DESIGN.md)
        target_compile_options(own_nccl_${which} PRIVATE -fno-optimize-sibling-calls)
        set_target_properties(own_nccl_${which} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    kedge_preload_test(launches SOURCES launches_test.c ROUTES dlsym LIBS kedge_read
        DEFINES NCCL_PATH="$<TARGET_FILE:fake_nccl>"
            OWN_NCCL_20_PATH="$<TARGET_FILE:own_nccl_20>" OWN_NCCL_30_PATH="$<TARGET_FILE:own_nccl_30>"
        ENVIRONMENT "KEDGE_ANCHORS=nvtx,marks,graphs,profiler,nccl,launches,kernel=nothing,kernel=*_sum")
    add_dependencies(launches_dlsym_test fake_nccl kedge_small own_nccl_20 own_nccl_30)
    add_test(NAME preload.launches.dlsym.more_launches_than_the_bound_are_no_labels.a_hundred
        COMMAND launches_dlsym_test more_launches_than_the_bound_are_no_labels)
    kedge_test_properties(preload.launches.dlsym.more_launches_than_the_bound_are_no_labels.a_hundred
        LABELS preload
        ENVIRONMENT ${kedge_preload_environment} "LD_PRELOAD=$<TARGET_FILE:kedge_small>" "TEST_ROUTE=dlsym"
            "TEST_LABELS=100" "KEDGE_ANCHORS=nvtx,marks,graphs,launches")
endif()
