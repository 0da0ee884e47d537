# SPDX-License-Identifier: MIT
#
# R107: nothing grows with what is gone.
if(TARGET simcuda AND TARGET kedge AND NOT KEDGE_SANITIZE)
    add_executable(soak_program soak_program.c)
    target_link_libraries(soak_program PRIVATE kedge_flags pthread ${CMAKE_DL_LIBS})
    set_target_properties(soak_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    kedge_script_test(rules.soak.r107_memory_does_not_grow_with_what_is_gone SCRIPT soak.py ARGS memory LABELS preload TIMEOUT 600)
    kedge_script_test(rules.soak.r107_a_pair_costs_what_it_did_whatever_is_gone SCRIPT soak.py
        ARGS instructions stream event context reset pool thread module line range capture LABELS preload TIMEOUT 600)
    kedge_script_test(rules.soak.at_length.r107_a_pair_costs_what_it_did_whatever_is_gone SCRIPT soak.py ARGS instructions
        LABELS slow preload TIMEOUT 900)
endif()
