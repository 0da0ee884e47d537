# SPDX-License-Identifier: MIT
#
# Rules about what memory is whose: entrances, classes, alignment, queries, pools, and what other processes are shown.
if(TARGET simcuda)
    kedge_preload_test(memory_told SOURCES memory_told_test.c ROUTES gpa LIBS kedge_read kedge_track)
    kedge_preload_test(memory SOURCES memory_test.c ROUTES dlsym gpa ENVIRONMENT "SIMCUDA_DEVICES=2")
    kedge_preload_test(memory_ipc SOURCES memory_ipc_test.c ROUTES dlsym LIBS kedge_read)
endif()

# What the report makes of a program with memory of many classes, some of it asked for by a library like cuBLAS.
if(TARGET simcuda AND TARGET kedge_cli AND NOT KEDGE_SANITIZE)
    add_library(like_cublas MODULE ../preload/asking_lib.c)
    target_link_libraries(like_cublas PRIVATE kedge_flags)
    set_target_properties(like_cublas PROPERTIES C_VISIBILITY_PRESET default PREFIX "" OUTPUT_NAME libcublas
        SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    add_executable(memory_program memory_program.c)
    target_compile_definitions(memory_program PRIVATE LIBRARY_PATH="$<TARGET_FILE:like_cublas>")
    target_link_libraries(memory_program PRIVATE kedge_flags ${CMAKE_DL_LIBS})
    set_target_properties(memory_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    add_dependencies(memory_program like_cublas kedge simcuda)
    foreach(case every_class_is_in_the_report without_a_log_the_rows_are_the_same the_text_says_what_counts)
        kedge_script_test(rules.memory.${case} SCRIPT memory_report.py ARGS ${case} LABELS regress preload)
    endforeach()
endif()
