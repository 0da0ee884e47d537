# SPDX-License-Identifier: MIT
#
# The process as a whole: rights, tools beside us, what the library is as a file.
if(TARGET simcuda AND TARGET kedge AND NOT KEDGE_SANITIZE)
    add_executable(process_secure process_secure.c)
    target_link_libraries(process_secure PRIVATE kedge_flags -Wl,--no-as-needed kedge simcuda ${CMAKE_DL_LIBS})
    set_target_properties(process_secure PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    kedge_script_test(rules.process.r51_a_setgid_program_is_left_alone SCRIPT process_secure.sh LABELS preload)
    kedge_script_test(rules.process.r41_r48_r49_r59_of_the_files_themselves SCRIPT process_files.sh LABELS preload)
endif()
if(TARGET simcudart13 AND NOT KEDGE_SANITIZE)
    add_executable(bus_program bus_program.c)
    target_include_directories(bus_program PRIVATE ${CMAKE_SOURCE_DIR}/tests/trainers/include)
    target_link_libraries(bus_program PRIVATE kedge_flags simcudart13 pthread)
    set_target_properties(bus_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules)
    kedge_script_test(rules.process.r101_a_capture_that_is_spoilt_does_not_end_the_program SCRIPT bus.sh LABELS preload TIMEOUT 300)
endif()
