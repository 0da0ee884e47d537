# SPDX-License-Identifier: MIT
set(track_libs kedge_track kedge_read kedge_alloc)
kedge_unit_test(capture SOURCES capture_test.c LIBS ${track_libs}
    DEFINES "SOURCE_DIRECTORY=\"${CMAKE_SOURCE_DIR}\"")
kedge_unit_test(kill SOURCES kill_test.c LIBS ${track_libs})
kedge_unit_test(places SOURCES places_test.c LIBS ${track_libs})
kedge_unit_test(eventcode SOURCES eventcode_test.c LIBS kedge_read)
kedge_unit_test(capoom SOURCES capoom_test.c LIBS ${track_libs})
kedge_unit_test(usemap SOURCES usemap_test.c LIBS ${track_libs})
kedge_unit_test(uses SOURCES uses_test.c LIBS ${track_libs})
kedge_unit_test(hintfile SOURCES hintfile_test.c LIBS kedge_read)
kedge_unit_test(anchor SOURCES anchor_test.c LIBS ${track_libs})
kedge_unit_test(nth SOURCES nth_test.c LIBS ${track_libs})
kedge_unit_test(catalog SOURCES catalog_test.c LIBS ${track_libs})
kedge_unit_test(loglines SOURCES loglines_test.c LIBS ${track_libs})
kedge_unit_test(intern SOURCES intern_test.c LIBS ${track_libs})
kedge_unit_test(unwind SOURCES unwind_test.c LIBS ${track_libs})
kedge_unit_test(walkmemo SOURCES walkmemo_test.c LIBS ${track_libs})
kedge_unit_test(where SOURCES where_test.c LIBS ${track_libs}
    DEFINES "BINARY_DIRECTORY=\"${CMAKE_BINARY_DIR}\"")

# The library of where_helper: two builds, and two without a build-id.
foreach(variant a b nameless rebuilt)
    add_library(where_${variant} SHARED where_lib.c)
    target_link_libraries(where_${variant} PRIVATE kedge_flags)
    set_target_properties(where_${variant} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
endforeach()
target_compile_definitions(where_b PRIVATE VARIANT=1)
target_compile_definitions(where_rebuilt PRIVATE VARIANT=1)
target_compile_options(where_rebuilt PRIVATE -g0)
target_compile_options(where_nameless PRIVATE -g0) # so that they are equally long
target_link_options(where_a PRIVATE -Wl,--build-id=sha1)
target_link_options(where_b PRIVATE -Wl,--build-id=sha1)
target_link_options(where_nameless PRIVATE -Wl,--build-id=none -Wl,-soname,libwhere_nameless.so)
target_link_options(where_rebuilt PRIVATE -Wl,--build-id=none -Wl,-soname,libwhere_nameless.so)

# Two that differ in nothing but the size of a frame, and so lie at one address in turn.
foreach(variant large:0x4008 small:0x408)
    string(REPLACE ":" ";" variant "${variant}")
    list(GET variant 0 word)
    list(GET variant 1 frame)
    add_library(stale_${word} SHARED stale_lib.c)
    target_link_libraries(stale_${word} PRIVATE kedge_flags)
    target_compile_definitions(stale_${word} PRIVATE STALE_FRAME=${frame})
    set_target_properties(stale_${word} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
endforeach()
kedge_unit_test(stale SOURCES stale_test.c LIBS ${track_libs}
    DEFINES STALE_LARGE="$<TARGET_FILE:stale_large>" STALE_SMALL="$<TARGET_FILE:stale_small>")
add_dependencies(stale_test stale_large stale_small)

foreach(helper where_helper cancel_helper identity_helper)
    add_executable(${helper} ${helper}.c)
    target_link_libraries(${helper} PRIVATE kedge_track kedge_alloc kedge_flags pthread ${CMAKE_DL_LIBS})
    set_target_properties(${helper} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
endforeach()

kedge_script_test(unit.unwind.cancelled_threads_run_destructors SCRIPT cancel_destructors.sh LABELS unit
    NOT_UNDER address thread undefined)
kedge_unit_test(read SOURCES read_test.c LIBS ${track_libs}
    DEFINES "SOURCE_DIRECTORY=\"${CMAKE_SOURCE_DIR}\"")
kedge_unit_test(damage SOURCES damage_test.c LIBS ${track_libs})
kedge_unit_test(pyframe SOURCES pyframe_test.c LIBS ${track_libs})
kedge_unit_test(options SOURCES options_test.c)
kedge_unit_test(captrouble SOURCES captrouble_test.c LIBS ${track_libs})
if(TARGET captrouble_test)
    target_link_options(captrouble_test PRIVATE
        "LINKER:--wrap=fallocate,--wrap=pwrite,--wrap=mmap,--wrap=open,--wrap=linkat,--wrap=fchmod,--wrap=fstatvfs")
endif()
