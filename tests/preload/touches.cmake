# SPDX-License-Identifier: MIT
#
# R66, R86: first and last use of allocations, on the simulated device.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    add_library(touches_nccl SHARED touches_nccl_lib.c)
    target_link_libraries(touches_nccl PRIVATE kedge_flags)
    set_target_properties(touches_nccl PROPERTIES C_VISIBILITY_PRESET default OUTPUT_NAME nccl
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload/touches_nccl)
    kedge_preload_test(touches SOURCES touches_test.c ROUTES dlsym LIBS kedge_read
        DEFINES NCCL_PATH="$<TARGET_FILE:touches_nccl>")
    add_dependencies(touches_dlsym_test touches_nccl)
endif()
