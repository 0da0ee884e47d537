# SPDX-License-Identifier: MIT
#
# R36: the library with a look at every door (locks_guest.c), in every program that there is; and the same seen red.
if(NOT KEDGE_SANITIZE AND TARGET kedge_mutant)
    set(wrapped dlvsym dlopen dladdr dladdr1 dl_iterate_phdr route_dlsym resolve_ready unwind_walker
        where_am_i open close read write pwrite fallocate fstat stat rename unlink readlink mmap capfile_create
        malloc calloc realloc free nanosleep sched_yield pthread_once pool_new)
    add_library(kedge_locks SHARED locks_guest.c)
    # The jumps of what stands behind dlsym.
    set_source_files_properties(locks_guest.c
        PROPERTIES COMPILE_OPTIONS "-O2;-foptimize-sibling-calls;-Wno-missing-prototypes")
    kedge_exports_of_libc(kedge_locks dlsym output signal exit)
    kedge_preloaded(kedge_locks ${CMAKE_BINARY_DIR}/preload/kedge.map)
    foreach(symbol IN LISTS wrapped)
        target_link_options(kedge_locks PRIVATE -Wl,--wrap=${symbol})
    endforeach()
    # Under its own name: tests ask which library a function is from.
    set_target_properties(kedge_locks PROPERTIES OUTPUT_NAME kedge
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rules/locks)

    set(held r36_no_lock_is_held_at_a_door)
    foreach(case IN ITEMS trainers captures hints workloads some_preload_tests)
        kedge_script_test(rules.locks.${held}.${case} SCRIPT locks.py ARGS ${case} LABELS regress preload TIMEOUT 600)
    endforeach()
    kedge_script_test(rules.locks.${held}.preload_tests SCRIPT locks.py ARGS preload_tests LABELS regress preload slow TIMEOUT 900)
    foreach(door IN ITEMS driver loader unwind file once)
        kedge_script_test(rules.locks.r36_a_lock_held_at_a_door_is_seen.${door} SCRIPT locks.py ARGS seen.${door}
            LABELS mutation preload)
    endforeach()
endif()
