# SPDX-License-Identifier: MIT
kedge_unit_test(runtime_sot NAME unit.sot SOURCES runtime_sot_test.c LIBS sot_model
    DEFINES SEED_FILE="${CMAKE_SOURCE_DIR}/tests/data/s66278.csv")
kedge_unit_test(runtime_ptx NAME unit.kernels SOURCES runtime_ptx_test.c LIBS trainer_kernels)

# The runtime over a driver that does everything at once and writes down what it is asked.
add_library(runtime_fake_driver SHARED runtime_fake_driver.c)
target_link_libraries(runtime_fake_driver PRIVATE trainer_kernels kedge_flags ${CMAKE_DL_LIBS})
target_link_options(runtime_fake_driver PRIVATE -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic)
set_target_properties(runtime_fake_driver PROPERTIES
    OUTPUT_NAME cuda SUFFIX .so.1 NO_SONAME TRUE
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit/fake)
kedge_unit_test(runtime_driver NAME unit.runtime SOURCES runtime_driver_test.c LIBS simcudart13
    ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/unit/fake")
add_dependencies(runtime_driver_test runtime_fake_driver)

# NVTX ranges of a program, and a library that receives them.
add_library(runtime_nvtx_injection MODULE runtime_nvtx_injection.c)
target_include_directories(runtime_nvtx_injection PRIVATE ../trainers/include)
target_link_libraries(runtime_nvtx_injection PRIVATE kedge_flags)
set_target_properties(runtime_nvtx_injection PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
kedge_unit_test(runtime_nvtx NAME unit.nvtx SOURCES runtime_nvtx_test.c
    DEFINES INJECTION="${CMAKE_BINARY_DIR}/tests/unit/runtime_nvtx_injection.so")
target_include_directories(runtime_nvtx_test PRIVATE ../trainers/include)
add_dependencies(runtime_nvtx_test runtime_nvtx_injection)
kedge_script_test(unit.nvtx.layout_is_that_of_the_toolkit SCRIPT runtime_nvtx_layout.sh LABELS unit)

# Both libraries together. Lazy: nothing is done before somebody waits for it.
if(TARGET simcuda)
    kedge_unit_test(runtime_device NAME unit.runtime_device SOURCES runtime_device_test.c LIBS simcudart13 trainer_kernels
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim" SIMCUDA_DEVICES=2 SIMCUDA_SCHED=lazy SIMCUDA_MEMORY=4G)
    target_include_directories(runtime_device_test PRIVATE ../trainers/include)
    kedge_unit_test(runtime_twelve NAME unit.runtime_twelve SOURCES runtime_twelve_test.c LIBS simcudart12
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim")
    target_include_directories(runtime_twelve_test PRIVATE ../trainers/include)
    kedge_unit_test(runtime_eleven NAME unit.runtime_eleven SOURCES runtime_eleven_test.c LIBS simcudart11
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim")
    target_include_directories(runtime_eleven_test PRIVATE ../trainers/include)
    foreach(test runtime_device_test runtime_twelve_test runtime_eleven_test)
        if(TARGET ${test})
            add_dependencies(${test} simcuda)
        endif()
    endforeach()
endif()
kedge_script_test(unit.runtime_headers.properties_and_names_are_nvidias_own SCRIPT runtime_headers.py
    ARGS ${CMAKE_BINARY_DIR} LABELS unit NOT_UNDER address undefined thread) # its program is built without a sanitizer
