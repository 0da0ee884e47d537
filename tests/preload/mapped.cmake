# SPDX-License-Identifier: MIT
#
# Tests about the cudaMalloc API once more with KEDGE_POOL=sync=mapped: what works on memory of the driver's own must work there.
#
# kedge_preload_mapped(program SOURCE f.c ROUTE route CASES regex [EXCEPT case...] [ENVIRONMENT e...])
#
# Each case of the program that matches is a test preload.<program>.<route>.<case>.mapped. Left out with EXCEPT: what is about the
# plain heap itself, or watches it through the driver's own cuMemAlloc.
function(kedge_preload_mapped program)
    cmake_parse_arguments(PARSE_ARGV 1 T "" "SOURCE;ROUTE;CASES" "EXCEPT;ENVIRONMENT")
    if(NOT TARGET ${program}_${T_ROUTE}_test)
        return()
    endif()
    file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${T_SOURCE} lines REGEX "^TEST\\([a-z0-9_]+\\)")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^TEST\\(([a-z0-9_]+)\\).*" "\\1" case ${line})
        if(case IN_LIST T_EXCEPT OR NOT case MATCHES "${T_CASES}")
            continue()
        endif()
        set(test preload.${program}.${T_ROUTE}.${case}.mapped)
        add_test(NAME ${test} COMMAND ${program}_${T_ROUTE}_test ${case})
        kedge_test_properties(${test} LABELS preload ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=${T_ROUTE}"
            "KEDGE_POOL=sync=mapped" ${T_ENVIRONMENT})
    endforeach()
endfunction()

if(TARGET simcuda)
    kedge_preload_mapped(memory SOURCE memory_test.c ROUTE dlsym CASES ".*" ENVIRONMENT "SIMCUDA_DEVICES=2" EXCEPT
        r15_large_blocks_begin_at_2_mib_wherever_they_stand # with export-safe alone
        r16_packed_blocks_may_share_and_r23_guards_them r21_on_the_plain_heap_every_answer_is_the_drivers
        r16_export_safe_blocks_stand_alone_at_the_start_of_their_segments r46_the_reserve_is_left_for_the_driver
        r46_without_a_reserve_growth_takes_what_there_is) # they set KEDGE_POOL themselves
    kedge_preload_mapped(memory_told SOURCE memory_told_test.c ROUTE gpa CASES "^r22_what_is_told_can_be_had_(on|beside|while|after|in)")
    kedge_preload_mapped(errors SOURCE errors_test.c ROUTE gpa CASES ".*" EXCEPT
        r32_the_drivers_own_code_comes_through r34_after_a_sticky_error_nothing_is_recycled)
    kedge_preload_mapped(corners SOURCE corners_test.c ROUTE dlsym CASES "^(r26|r82|a_context)" ENVIRONMENT "SIMCUDA_DEVICES=2")
    kedge_preload_mapped(race SOURCE race_test.c ROUTE dlsym CASES "^(r01|r26)")
    kedge_preload_mapped(process SOURCE process_test.c ROUTE dlsym CASES "^(r38|r39|r40)")
    kedge_preload_mapped(figures SOURCE figures_test.c ROUTE gpa CASES "^r22_r78_figures_hold_(after_any_sequence|when)"
        ENVIRONMENT "SIMCUDA_DEVICES=2" "SIMCUDA_MEMORY=512M" "TEST_SEEDS=30")
    foreach(which RANGE 1 13)
        if(TARGET errors_gpa_test)
            set(test preload.errors.gpa.r14_r32_no_failure_of_ours_reaches_the_program.mapped.${which})
            add_test(NAME ${test} COMMAND errors_gpa_test r14_r32_no_failure_of_ours_reaches_the_program)
            kedge_test_properties(${test} LABELS preload ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=gpa"
                "KEDGE_POOL=sync=mapped" "TEST_WHICH=${which}")
        endif()
    endforeach()
endif()
