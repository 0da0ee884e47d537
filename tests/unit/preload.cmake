# SPDX-License-Identifier: MIT
#
# preload: parts that can be tested alone, then programs under libkedge.so on the simulated device (tests/preload/).

kedge_unit_test(config SOURCES config_test.c ../../tracker/config.c ../../preload/msg.c)
kedge_unit_test(guard SOURCES guard_test.c ../../preload/guard.c ../../preload/gate.c LIBS kedge_alloc)
kedge_unit_test(addrmap SOURCES addrmap_test.c ../../preload/addrmap.c LIBS kedge_alloc)
kedge_unit_test(resolve SOURCES resolve_test.c)
kedge_unit_test(quick SOURCES quick_test.c)
kedge_unit_test(params SOURCES params_test.c ../../preload/params.c ../../preload/guard.c LIBS kedge_alloc)
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
    add_library(nvtx_tool MODULE ../preload/nvtx_tool.c)
    add_library(nvtx_emitter MODULE ../preload/nvtx_tool.c)
    target_compile_definitions(nvtx_emitter PRIVATE EMITS)
    foreach(library nvtx_tool nvtx_emitter)
        target_link_libraries(${library} PRIVATE kedge_flags)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    kedge_preload_test(nvtx_chain SOURCES ../preload/nvtx_chain_test.c ROUTES dlsym LIBS kedge_read
        DEFINES TOOL_PATH="$<TARGET_FILE:nvtx_tool>" EMITTER_PATH="$<TARGET_FILE:nvtx_emitter>"
        ENVIRONMENT "NVTX_INJECTION64_PATH=$<TARGET_FILE:nvtx_tool>")
    if(TARGET nvtx_chain_dlsym_test)
        add_dependencies(nvtx_chain_dlsym_test nvtx_tool nvtx_emitter)
    endif()
    foreach(kind plain linked injects)
        add_library(nvtx2_${kind} SHARED ../preload/nvtx2_lib.c)
        target_link_libraries(nvtx2_${kind} PRIVATE kedge_flags)
        set_target_properties(nvtx2_${kind} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    endforeach()
    target_compile_definitions(nvtx2_injects PRIVATE INJECTS)
    kedge_preload_test(nvtx2 SOURCES ../preload/nvtx2_test.c ROUTES dlsym LIBS kedge_read nvtx2_linked
        DEFINES NVTX2_PLAIN_PATH="$<TARGET_FILE:nvtx2_plain>" NVTX2_INJECTS_PATH="$<TARGET_FILE:nvtx2_injects>")
    if(TARGET nvtx2_dlsym_test)
        add_dependencies(nvtx2_dlsym_test nvtx2_plain nvtx2_injects)
    endif()
    kedge_preload_test(output SOURCES ../preload/output_test.c ROUTES dlsym LIBS kedge_read)
    if(TARGET output_dlsym_test)
        target_compile_options(output_dlsym_test PRIVATE -fexceptions) # what is cancelled is cleaned up
    endif()
    kedge_preload_test(handlers SOURCES ../preload/handlers_test.c ROUTES dlsym LIBS kedge_read
        ENVIRONMENT "KEDGE_ANCHORS=nvtx,marks,log,graphs,profiler,nccl,launches,kernel=*_sum" "KEDGE_STACKS=off")
    kedge_preload_test(output_patterns SOURCES ../preload/output_patterns_test.c ROUTES dlsym LIBS kedge_read
        ENVIRONMENT "KEDGE_ANCHORS=nvtx,marks,log=x,log=Epoch {}/*,log=step {}:*|step over")
    kedge_preload_test(corners SOURCES ../preload/corners_test.c ROUTES dlsym
        ENVIRONMENT "SIMCUDA_DEVICES=2")
    kedge_preload_test(race SOURCES ../preload/race_test.c ROUTES dlsym)
    kedge_preload_test(begin SOURCES ../preload/begin_test.c ROUTES dlsym)
    kedge_preload_test(begin_old SOURCES ../preload/begin_test.c ROUTES dlsym
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/oracle/sim-12.4" "SIMCUDA_VERSION=12040")
    if(TARGET begin_old_dlsym_test)
        add_dependencies(begin_old_dlsym_test simcuda_old)
    endif()
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
    add_library(asking_listed MODULE ../preload/asking_lib.c) # as asking_13, by another name
    target_compile_definitions(asking_listed PRIVATE ASKS_RUNTIME)
    target_link_libraries(asking_listed PRIVATE simcudart13)
    list(APPEND asking_libraries asking_listed)
    list(APPEND world_defines ASKING_LISTED_PATH="$<TARGET_FILE:asking_listed>")
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
    add_executable(sources_program ../preload/sources_program.c)
    target_link_libraries(sources_program PRIVATE kedge_flags simcuda ${CMAKE_DL_LIBS})
    target_compile_options(sources_program PRIVATE -g)
    set_target_properties(sources_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    foreach(library asking framework)
        target_compile_options(${library} PRIVATE -g)
    endforeach()
    kedge_script_test(preload.sources.memory_is_told_by_library_kind_and_place SCRIPT ../preload/sources.py LABELS preload)
    add_executable(sites_of ../preload/sites_of.c)
    target_link_libraries(sites_of PRIVATE kedge_flags kedge_read)
    set_target_properties(sites_of PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload)
    kedge_script_test(preload.sites.twenty_runs_of_the_trainers_have_equal_places
        SCRIPT ../preload/sites.py ARGS trainers LABELS preload TIMEOUT 300)
    kedge_script_test(preload.sites.a_rebuilt_library_has_other_places_and_is_named
        SCRIPT ../preload/sites.py ARGS cxx LABELS preload TIMEOUT 300)
    # stacks by each way: libunwind, glibc's backtrace() where there is no libunwind to speak of, frame pointers
    add_library(no_unwind SHARED ../preload/empty_lib.c)
    target_link_libraries(no_unwind PRIVATE kedge_flags)
    set_target_properties(no_unwind PROPERTIES PREFIX "" OUTPUT_NAME libunwind SUFFIX .so.8
        C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/preload/no_unwind)
    kedge_preload_test(stacks SOURCES ../preload/stacks_test.c ROUTES dlsym LIBS kedge_read)
    if(TARGET stacks_dlsym_test)
        add_dependencies(stacks_dlsym_test no_unwind)
        file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/../preload/stacks_test.c lines REGEX "^TEST\\([a-z0-9_]+\\)")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^TEST\\(([a-z0-9_]+)\\).*" "\\1" case ${line})
            foreach(engine backtrace fp)
                set(libraries ${CMAKE_BINARY_DIR}/sim)
                if(engine STREQUAL backtrace)
                    set(libraries "${CMAKE_BINARY_DIR}/tests/preload/no_unwind:${libraries}")
                endif()
                add_test(NAME preload.stacks.dlsym.${case}.${engine} COMMAND stacks_dlsym_test ${case})
                kedge_test_properties(preload.stacks.dlsym.${case}.${engine} LABELS preload ENVIRONMENT
                    ${kedge_preload_environment} "TEST_ROUTE=dlsym" "TEST_ENGINE=${engine}" "LD_LIBRARY_PATH=${libraries}")
            endforeach()
        endforeach()
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
    add_library(begin MODULE ../preload/begin_lib.c)
    foreach(library deep deep_sub twin_a twin_b count begin)
        target_link_libraries(${library} PRIVATE kedge_flags)
        set_target_properties(${library} PROPERTIES C_VISIBILITY_PRESET default
            LIBRARY_OUTPUT_DIRECTORY ${preload_folder})
    endforeach()
    set_target_properties(deep_sub PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${preload_folder}/beside)
    set_target_properties(deep PROPERTIES BUILD_RPATH "$ORIGIN/beside")
    target_link_options(deep PRIVATE -Wl,--enable-new-dtags)
    kedge_preload_test(loader SOURCES ../preload/loader_test.c ROUTES dlsym LIBS kedge_read
        DEFINES DEEP_PATH="$<TARGET_FILE:deep>" TWIN_A_PATH="$<TARGET_FILE:twin_a>"
            TWIN_B_PATH="$<TARGET_FILE:twin_b>" BEGIN_PATH="$<TARGET_FILE:begin>" FRAMEWORK_PATH="$<TARGET_FILE:framework>"
            STALE_LARGE="$<TARGET_FILE:stale_large>" STALE_SMALL="$<TARGET_FILE:stale_small>")
    kedge_preload_test(process SOURCES ../preload/process_test.c ROUTES dlsym linked LIBS kedge_read)
    kedge_preload_test(own_streams SOURCES ../preload/own_streams_test.c ROUTES dlsym
        ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:kedge_small>")
    if(TARGET own_streams_dlsym_test)
        add_dependencies(own_streams_dlsym_test kedge_small)
        add_test(NAME preload.own_streams.dlsym.r69_streams_of_threads_end_with_them.ten_thousand
            COMMAND own_streams_dlsym_test r69_streams_of_threads_end_with_them)
        kedge_test_properties(preload.own_streams.dlsym.r69_streams_of_threads_end_with_them.ten_thousand
            LABELS preload slow ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=dlsym" "TEST_THREADS=10000")
    endif()
    foreach(test loader_dlsym_test)
        if(TARGET ${test})
            add_dependencies(${test} deep deep_sub twin_a twin_b begin framework stale_large stale_small)
            set_target_properties(${test} PROPERTIES ENABLE_EXPORTS ON) # a library calls back
        endif()
    endforeach()
    kedge_preload_test(other SOURCES ../preload/other_test.c ROUTES linked ENVIRONMENT ${kedge_preloads})
    kedge_preload_test(classes SOURCES ../preload/classes_test.c ROUTES linked dlsym gpa LIBS kedge_read)
    kedge_preload_test(record SOURCES ../preload/record_test.c ROUTES linked dlsym gpa LIBS kedge_read)
endif()

kedge_script_test(unit.resolve.rows_are_those_of_the_toolkit SCRIPT ../preload/hooks_against_toolkit.py LABELS unit)
kedge_script_test(preload.life.r28_a_program_without_cuda_costs_nothing SCRIPT ../preload/costs_nothing.sh LABELS preload)
if(TARGET simcuda)
    kedge_script_test(preload.cancel.unwinding_of_cxx_is_left_to_libgcc SCRIPT ../preload/cancel_cxx.sh LABELS preload)
    kedge_script_test(preload.life.report_says_what_kedge_did_not_see SCRIPT ../preload/coverage.sh LABELS preload)
    kedge_script_test(preload.life.lines_say_what_is_wrong SCRIPT ../preload/lines.sh LABELS preload)
    kedge_script_test(preload.life.r43_off_is_as_if_not_there SCRIPT ../preload/off_is_off.sh LABELS preload)
endif()
