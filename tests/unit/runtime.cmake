# SPDX-License-Identifier: MIT
# The runtime over a driver that does everything at once and writes it down.
add_library(runtime_fake_driver SHARED runtime_fake_driver.c ${CMAKE_SOURCE_DIR}/tests/trainers/kernels_host.c)
target_link_libraries(runtime_fake_driver PRIVATE kedge_flags ${CMAKE_DL_LIBS})
target_link_options(runtime_fake_driver PRIVATE -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic)
set_target_properties(runtime_fake_driver PROPERTIES
    OUTPUT_NAME cuda SUFFIX .so.1 NO_SONAME TRUE
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit/fake)
