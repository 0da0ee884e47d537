# SPDX-License-Identifier: MIT
#
# Libraries that are linked with a runtime and came into the process by every way (linked_*.c).

# kedge_linked_library(name [DEFINES d...] [LIBS l...]): liblinked_<name>.so; its functions have <name> in their names
function(kedge_linked_library name)
    cmake_parse_arguments(PARSE_ARGV 1 T "" "" "DEFINES;LIBS")
    add_library(linked_${name} SHARED linked_lib.c)
    target_compile_definitions(linked_${name} PRIVATE WHICH=${name} ${T_DEFINES})
    target_link_libraries(linked_${name} PRIVATE ${T_LIBS} kedge_flags)
    target_link_options(linked_${name} PRIVATE -Wl,--no-as-needed)
    set_target_properties(linked_${name} PROPERTIES C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
endfunction()

if(TARGET simcudart12)
    foreach(major 12 13)
        kedge_linked_library(user_${major} LIBS simcudart${major})
        kedge_linked_library(behind_${major} DEFINES BEHIND=user_${major} LIBS linked_user_${major})
        kedge_linked_library(far_behind_${major} DEFINES BEHIND=behind_${major} LIBS linked_behind_${major})
    endforeach()
    kedge_linked_library(begins_13 DEFINES BEGINS LIBS simcudart13)
    kedge_linked_library(behind_begins DEFINES BEHIND=begins_13 LIBS linked_begins_13)
    # one that nobody has linked with a runtime, and one that brings it and has one
    kedge_linked_library(bare)
    kedge_linked_library(brings_12 DEFINES BEHIND=bare LIBS linked_bare simcudart12)
    add_library(linked_preload SHARED linked_preload.c)
    target_link_libraries(linked_preload PRIVATE kedge_flags ${CMAKE_DL_LIBS})
    set_target_properties(linked_preload PROPERTIES C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    set(libraries linked_user_12 linked_behind_12 linked_far_behind_13 linked_behind_begins linked_bare linked_brings_12 linked_preload)
    kedge_unit_test(linked NAME preload.linked SOURCES linked_test.c LABELS preload
        DEFINES USER_12_PATH="$<TARGET_FILE:linked_user_12>" USER_13_PATH="$<TARGET_FILE:linked_user_13>"
            BARE_PATH="$<TARGET_FILE:linked_bare>" BRINGS_12_PATH="$<TARGET_FILE:linked_brings_12>" BEHIND_12_PATH="$<TARGET_FILE:linked_behind_12>"
            BEHIND_13_PATH="$<TARGET_FILE:linked_behind_13>" FAR_BEHIND_13_PATH="$<TARGET_FILE:linked_far_behind_13>"
            BEGIN_PATH="$<TARGET_FILE:begin>" BEHIND_BEGINS_PATH="$<TARGET_FILE:linked_behind_begins>"
        ENVIRONMENT ${kedge_preload_environment})
    # at the start of a program, in either order, and beside a runtime that the program itself calls
    kedge_unit_test(linked_12_first NAME preload.linked.older_first SOURCES linked_program_test.c LABELS preload
        LIBS linked_behind_12 linked_behind_13 linked_user_13 ENVIRONMENT ${kedge_preload_environment})
    kedge_unit_test(linked_13_first NAME preload.linked.newer_first SOURCES linked_program_test.c LABELS preload
        LIBS linked_behind_13 linked_user_13 linked_behind_12 ENVIRONMENT ${kedge_preload_environment})
    kedge_unit_test(linked_beside_12 NAME preload.linked.beside_its_own SOURCES linked_calls_test.c LABELS preload
        LIBS simcudart12 linked_user_13
        ENVIRONMENT ${kedge_preload_environment})
    # beside another preload, in either order
    foreach(order "behind_kedge:$<TARGET_FILE:kedge>:$<TARGET_FILE:linked_preload>"
            "before_kedge:$<TARGET_FILE:linked_preload>:$<TARGET_FILE:kedge>")
        string(REGEX MATCH "^[a-z]+" which ${order})
        string(REGEX REPLACE "^[a-z_]+:" "" preloads ${order})
        kedge_unit_test(linked_both_${which} NAME preload.linked.preload_${which}_kedge SOURCES linked_both_test.c
            LABELS preload LIBS linked_behind_13
            DEFINES FAR_BEHIND_13_PATH="$<TARGET_FILE:linked_far_behind_13>"
            ENVIRONMENT ${kedge_preload_environment} "LD_PRELOAD=${preloads}")
    endforeach()
    if(TARGET linked_test)
        add_dependencies(linked_test begin)
        set_target_properties(linked_test PROPERTIES ENABLE_EXPORTS ON) # a library calls back
    endif()
    foreach(test linked linked_both_behind linked_both_before linked_12_first linked_13_first linked_beside_12)
        if(TARGET ${test}_test)
            add_dependencies(${test}_test kedge simcuda ${libraries})
        endif()
    endforeach()
endif()
