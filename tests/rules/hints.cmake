# SPDX-License-Identifier: MIT
#
# R55, R57, R58, R79, R84-R87: hints in a program on the simulated device.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    foreach(part answers release)
        kedge_preload_test(hints_${part} SOURCES hints_${part}_test.c ROUTES dlsym LIBS kedge_read kedge_track)
    endforeach()
endif()
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    foreach(program sot sot_stream graphs graphs_stream)
        kedge_script_test(rules.hints.r55_hints_that_do_not_act_change_no_driver_call.${program} SCRIPT hints_calls.py
            ARGS ${program} LABELS regress preload)
    endforeach()
    kedge_script_test(rules.hints.r86_every_entry_that_carries_an_address_is_hooked SCRIPT hints_calls.py ARGS guard
        LABELS preload)
endif()
