# SPDX-License-Identifier: MIT
#
# Libraries with variables that are named like functions of the driver, in each mode.
if(TARGET simcuda)
    add_library(variables SHARED variables_lib.c)
    add_library(variables_constructs MODULE variables_lib.c)
    target_compile_definitions(variables_constructs PRIVATE CONSTRUCTS)
    foreach(library variables variables_constructs)
        target_link_libraries(${library} PRIVATE kedge_flags ${CMAKE_DL_LIBS})
        target_link_options(${library} PRIVATE -Wl,-z,relro,-z,now)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    foreach(mode pool track off)
        kedge_unit_test(variables_${mode} NAME preload.variables.${mode} SOURCES variables_test.c LABELS preload
            DEFINES VARIABLES_PATH="$<TARGET_FILE:variables>" CONSTRUCTS_PATH="$<TARGET_FILE:variables_constructs>"
            LIBS ${CMAKE_DL_LIBS} ENVIRONMENT ${kedge_preload_environment} KEDGE_MODE=${mode})
        foreach(kind copies slots)
            kedge_unit_test(variables_${kind}_${mode} NAME preload.variables.${kind}.${mode} SOURCES variables_linked_test.c
                LABELS preload LIBS variables ENVIRONMENT ${kedge_preload_environment} KEDGE_MODE=${mode})
        endforeach()
        # a program that is compiled as a library is has no copies
        if(TARGET variables_slots_${mode}_test)
            target_compile_options(variables_slots_${mode}_test PRIVATE -fPIC)
        endif()
        foreach(test variables_${mode} variables_copies_${mode} variables_slots_${mode})
            if(TARGET ${test}_test)
                add_dependencies(${test}_test kedge simcuda variables variables_constructs)
            endif()
        endforeach()
    endforeach()
endif()
