# SPDX-License-Identifier: MIT
#
# R22, R78, R84: what a program is told of free and used memory, after any sequence of calls.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    set(seeds 100) # of each form; fewer in a debug build, where they find the same and take three times as long
    if(CMAKE_BUILD_TYPE STREQUAL "Debug")
        set(seeds 50)
    endif()
    kedge_preload_test(figures SOURCES figures_test.c figures_world.c ROUTES gpa LIBS kedge_read kedge_track
        ENVIRONMENT "SIMCUDA_DEVICES=2" "SIMCUDA_MEMORY=512M" "TEST_SEEDS=${seeds}")
    # thousands of programs of each form, where somebody waits for them
    foreach(form r22_r78_figures_hold_after_any_sequence r22_r78_figures_hold_where_nothing_goes_back_by_itself
            r22_r78_figures_hold_when_calls_fail r78_r84_figures_are_the_same_when_hints_act
            r78_r84_figures_are_the_same_when_hints_watch)
        if(TARGET figures_gpa_test)
            add_test(NAME preload.figures.at_length.${form} COMMAND figures_gpa_test ${form})
            kedge_test_properties(preload.figures.at_length.${form} LABELS slow preload TIMEOUT 1500
                ENVIRONMENT ${kedge_preload_environment} "TEST_ROUTE=gpa" "SIMCUDA_DEVICES=2" "TEST_SEEDS=5000")
        endif()
    endforeach()
endif()
