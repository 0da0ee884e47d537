# SPDX-License-Identifier: MIT
set(track_libs kedge_track kedge_read kedge_alloc)
kedge_unit_test(capture SOURCES capture_test.c LIBS ${track_libs})
kedge_unit_test(capoom SOURCES capoom_test.c LIBS ${track_libs})
kedge_unit_test(hintfile SOURCES hintfile_test.c LIBS kedge_read)
kedge_unit_test(planfile SOURCES planfile_test.c LIBS kedge_read)
kedge_unit_test(anchor SOURCES anchor_test.c LIBS ${track_libs})
kedge_unit_test(intern SOURCES intern_test.c LIBS ${track_libs})
kedge_unit_test(unwind SOURCES unwind_test.c LIBS ${track_libs})
kedge_unit_test(where SOURCES where_test.c LIBS ${track_libs}
    DEFINES "BINARY_DIRECTORY=\"${CMAKE_BINARY_DIR}\"")

# The library of where_helper, three times: two builds, and one without a build-id.
foreach(variant a b nameless)
    add_library(where_${variant} SHARED where_lib.c)
    target_link_libraries(where_${variant} PRIVATE kedge_flags)
    set_target_properties(where_${variant} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
endforeach()
target_compile_definitions(where_b PRIVATE VARIANT=1)
target_link_options(where_a PRIVATE -Wl,--build-id=sha1)
target_link_options(where_b PRIVATE -Wl,--build-id=sha1)
target_link_options(where_nameless PRIVATE -Wl,--build-id=none)

foreach(helper where_helper cancel_helper)
    add_executable(${helper} ${helper}.c)
    target_link_libraries(${helper} PRIVATE kedge_track kedge_alloc kedge_flags pthread ${CMAKE_DL_LIBS})
    set_target_properties(${helper} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
endforeach()

kedge_script_test(unit.unwind.cancelled_threads_run_destructors SCRIPT cancel_destructors.sh LABELS unit
    NOT_UNDER address thread undefined)
kedge_unit_test(read SOURCES read_test.c LIBS ${track_libs}
    DEFINES "SOURCE_DIRECTORY=\"${CMAKE_SOURCE_DIR}\"")
kedge_unit_test(options SOURCES options_test.c)
