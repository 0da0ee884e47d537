# SPDX-License-Identifier: MIT
#
# preload: parts that can be tested alone, then programs under libkedge.so on the simulated device (tests/preload/).

kedge_unit_test(config SOURCES config_test.c ../../preload/config.c ../../preload/msg.c)
kedge_unit_test(guard SOURCES guard_test.c ../../preload/guard.c ../../preload/gate.c LIBS kedge_alloc)
kedge_unit_test(addrmap SOURCES addrmap_test.c ../../preload/addrmap.c LIBS kedge_alloc)
kedge_unit_test(resolve SOURCES resolve_test.c)
kedge_unit_test(mempools SOURCES mempools_test.c ../../preload/mempools.c LIBS kedge_alloc)
kedge_unit_test(vmm_books SOURCES vmm_books_test.c ../../preload/hooks_vmm.c ../../preload/addrmap.c LIBS kedge_alloc)
kedge_unit_test(elfsym SOURCES elfsym_test.c ../../preload/elfsym.c)

# What a preloaded program finds around it. Captures are left out unless a test is about them.
set(kedge_preload_environment
    "LD_PRELOAD=$<TARGET_FILE:kedge>"
    "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim"
    "SIMCUDA_MEMORY=2G"
    "KEDGE_TRACE=off")

# One test program on each route: what is found by look-up must behave like what is linked.
function(kedge_preload_test name)
    cmake_parse_arguments(PARSE_ARGV 1 T "" "" "SOURCES;ENVIRONMENT;ROUTES;DEFINES;LIBS")
    foreach(route IN LISTS T_ROUTES)
        set(libs ${T_LIBS})
        set(defines ${T_DEFINES})
        if(route STREQUAL linked)
            list(APPEND libs simcuda)
            list(APPEND defines CLIENT_LINKED)
        endif()
        kedge_unit_test(${name}_${route}
            NAME preload.${name}.${route}
            SOURCES ${T_SOURCES} ../preload/client.c
            LIBS ${libs}
            DEFINES ${defines}
            LABELS preload
            ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=${route}" ${T_ENVIRONMENT})
        if(TARGET ${name}_${route}_test)
            add_dependencies(${name}_${route}_test kedge simcuda)
        endif()
    endforeach()
endfunction()

if(TARGET simcuda)
    kedge_preload_test(hooks SOURCES ../preload/hooks_test.c ROUTES linked dlsym gpa)
    add_library(next_first MODULE ../preload/next_lib.c)
    add_library(next_second SHARED ../preload/next_lib.c)
    target_compile_definitions(next_first PRIVATE NEXT_FIRST)
    foreach(library next_first next_second)
        target_link_libraries(${library} PRIVATE kedge_flags)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    target_link_libraries(next_first PRIVATE next_second) # RTLD_NEXT looks in the scope of the caller
    target_link_options(next_first PRIVATE -Wl,--no-as-needed)
    kedge_preload_test(lookup SOURCES ../preload/handed_test.c ROUTES dlsym
        DEFINES NEXT_FIRST_PATH="$<TARGET_FILE:next_first>"
            SECOND_DRIVER_PATH="${CMAKE_BINARY_DIR}/tests/preload/second/libcuda.so.1")
    # the same driver from another folder
    set(second_driver ${CMAKE_BINARY_DIR}/tests/preload/second/libcuda.so.1)
    add_custom_command(OUTPUT ${second_driver} DEPENDS simcuda
        COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:simcuda> ${second_driver})
    add_custom_target(second_driver ALL DEPENDS ${second_driver})
    kedge_preload_test(nvtx SOURCES ../preload/nvtx_test.c ROUTES dlsym LIBS kedge_read)
    kedge_preload_test(corners SOURCES ../preload/corners_test.c ROUTES dlsym
        ENVIRONMENT "SIMCUDA_DEVICES=2")
    kedge_preload_test(race SOURCES ../preload/race_test.c ROUTES dlsym)
    kedge_preload_test(errors SOURCES ../preload/errors_test.c ROUTES gpa)
    kedge_preload_test(oom SOURCES ../preload/oom_test.c ROUTES gpa LIBS kedge_read)
    if(TARGET oom_gpa_test)
        set_target_properties(oom_gpa_test PROPERTIES ENABLE_EXPORTS ON) # its clock is the library's
    endif()
    foreach(which RANGE 1 13)
        if(TARGET errors_gpa_test)
            add_test(NAME preload.errors.gpa.r14_r32_no_failure_of_ours_reaches_the_program.${which}
                COMMAND errors_gpa_test r14_r32_no_failure_of_ours_reaches_the_program)
            kedge_test_properties(preload.errors.gpa.r14_r32_no_failure_of_ours_reaches_the_program.${which}
                LABELS preload
                ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=gpa" "TEST_WHICH=${which}")
        endif()
    endforeach()
    add_library(cancel_lib MODULE ../preload/cancel_lib.c)
    target_link_libraries(cancel_lib PRIVATE kedge_flags)
    target_compile_options(cancel_lib PRIVATE -fexceptions)
    target_link_options(cancel_lib PRIVATE -Wl,--no-as-needed -lgcc_s)
    set_target_properties(cancel_lib PROPERTIES C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    kedge_preload_test(cancel SOURCES ../preload/cancel_test.c ROUTES dlsym
        DEFINES CANCEL_PATH="$<TARGET_FILE:cancel_lib>")
    # a library that asks, the same under a framework's name, and linked with each of the two runtimes
    add_library(asking MODULE ../preload/asking_lib.c)
    add_library(framework MODULE ../preload/asking_lib.c)
    set_target_properties(framework PROPERTIES PREFIX "" OUTPUT_NAME libc10_cuda)
    add_library(other_preload SHARED ../preload/other_preload.c)
    set(asking_libraries asking framework other_preload)
    set(world_defines ASKING_PATH="$<TARGET_FILE:asking>" FRAMEWORK_PATH="$<TARGET_FILE:framework>")
    foreach(major 12 13)
        add_library(asking_${major} MODULE ../preload/asking_lib.c)
        target_compile_definitions(asking_${major} PRIVATE ASKS_RUNTIME)
        target_link_libraries(asking_${major} PRIVATE simcudart${major})
        list(APPEND asking_libraries asking_${major})
        list(APPEND world_defines ASKING_${major}_PATH="$<TARGET_FILE:asking_${major}>")
    endforeach()
    foreach(library IN LISTS asking_libraries)
        target_link_libraries(${library} PRIVATE kedge_flags)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    kedge_preload_test(world SOURCES ../preload/world_test.c ROUTES linked dlsym DEFINES ${world_defines})
    if(TARGET world_linked_test)
        add_dependencies(world_linked_test ${asking_libraries})
        add_dependencies(world_dlsym_test ${asking_libraries})
        add_test(NAME preload.world.dlsym.r20_r83_libraries_on_the_bypass_list_get_the_drivers_memory.without_stacks
            COMMAND world_dlsym_test r20_r83_libraries_on_the_bypass_list_get_the_drivers_memory)
        kedge_test_properties(preload.world.dlsym.r20_r83_libraries_on_the_bypass_list_get_the_drivers_memory.without_stacks
            LABELS preload ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=dlsym" "TEST_NO_STACKS=1")
    endif()
    set(kedge_preloads "LD_PRELOAD=$<TARGET_FILE:kedge>:$<TARGET_FILE:other_preload>")
    # the loader's ways: a library that binds deeply and opens another beside it; two that lie at one address in turn
    set(preload_folder ${CMAKE_BINARY_DIR}/tests/preload)
    add_library(deep MODULE ../preload/deep_lib.c)
    add_library(deep_sub SHARED ../preload/deep_sub.c)
    add_library(twin_a MODULE ../preload/asking_lib.c)
    add_library(twin_b MODULE ../preload/asking_lib.c)
    target_compile_definitions(twin_b PRIVATE TWIN_B) # another build-id
    add_library(count SHARED ../preload/count_lib.c)
    foreach(library deep deep_sub twin_a twin_b count)
        target_link_libraries(${library} PRIVATE kedge_flags)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${preload_folder})
    endforeach()
    set_target_properties(deep_sub PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${preload_folder}/beside)
    set_target_properties(deep PROPERTIES BUILD_RPATH "$ORIGIN/beside")
    target_link_options(deep PRIVATE -Wl,--enable-new-dtags)
    kedge_preload_test(loader SOURCES ../preload/loader_test.c ROUTES dlsym LIBS kedge_read
        DEFINES DEEP_PATH="$<TARGET_FILE:deep>" TWIN_A_PATH="$<TARGET_FILE:twin_a>"
            TWIN_B_PATH="$<TARGET_FILE:twin_b>" FRAMEWORK_PATH="$<TARGET_FILE:framework>")
    kedge_preload_test(process SOURCES ../preload/process_test.c ROUTES dlsym linked LIBS kedge_read)
    kedge_preload_test(own_streams SOURCES ../preload/own_streams_test.c ROUTES dlsym
        ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:kedge_few_streams>")
    if(TARGET own_streams_dlsym_test)
        add_dependencies(own_streams_dlsym_test kedge_few_streams)
        add_test(NAME preload.own_streams.dlsym.r69_streams_of_threads_end_with_them.ten_thousand
            COMMAND own_streams_dlsym_test r69_streams_of_threads_end_with_them)
        kedge_test_properties(preload.own_streams.dlsym.r69_streams_of_threads_end_with_them.ten_thousand
            LABELS preload slow ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=dlsym" "TEST_THREADS=10000")
    endif()
    foreach(test loader_dlsym_test)
        if(TARGET ${test})
            add_dependencies(${test} deep deep_sub twin_a twin_b framework)
        endif()
    endforeach()
    kedge_preload_test(other SOURCES ../preload/other_test.c ROUTES linked ENVIRONMENT ${kedge_preloads})
    kedge_preload_test(classes SOURCES ../preload/classes_test.c ROUTES linked dlsym gpa LIBS kedge_read)
    kedge_preload_test(record SOURCES ../preload/record_test.c ROUTES linked dlsym gpa LIBS kedge_read)
endif()

kedge_script_test(unit.resolve.rows_are_those_of_the_toolkit SCRIPT ../preload/hooks_against_toolkit.py LABELS unit)
kedge_script_test(preload.life.r28_a_program_without_cuda_costs_nothing SCRIPT ../preload/costs_nothing.sh LABELS preload)
if(TARGET simcuda)
    kedge_script_test(preload.life.report_says_what_kedge_did_not_see SCRIPT ../preload/coverage.sh LABELS preload)
    kedge_script_test(preload.life.lines_say_what_is_wrong SCRIPT ../preload/lines.sh LABELS preload)
    kedge_script_test(preload.life.r43_off_is_as_if_not_there SCRIPT ../preload/off_is_off.sh LABELS preload)
endif()
