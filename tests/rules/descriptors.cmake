# SPDX-License-Identifier: MIT
#
# R99: the numbers of descriptors are the program's.
if(TARGET simcudart13 AND NOT KEDGE_SANITIZE)
    add_executable(descriptors_program descriptors_program.c)
    target_include_directories(descriptors_program PRIVATE ${CMAKE_SOURCE_DIR}/tests/trainers/include)
    target_link_libraries(descriptors_program PRIVATE kedge_flags simcudart13 pthread)
    set_target_properties(descriptors_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    foreach(kind sync stream graph ipc evict python)
        kedge_script_test(rules.descriptors.r99_they_are_the_programs_at_every_moment.${kind}
            SCRIPT descriptors.sh ARGS ${kind} LABELS preload TIMEOUT 600)
    endforeach()
endif()
