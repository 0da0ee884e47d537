# SPDX-License-Identifier: MIT
foreach(part align sources compare failon framework groups keytable launch load model title patterns period plan pylines pymerge recorded render stated steps stepview
        args)
    kedge_unit_test(${part} SOURCES ${part}_test.c LIBS kedge_tools)
endforeach()
kedge_unit_test(training SOURCES training_test.c training.c LIBS kedge_tools)
if(TARGET kedge_alloc)
    kedge_unit_test(suggest SOURCES suggest_test.c LIBS kedge_tools)
    kedge_unit_test(peer SOURCES peer_test.c LIBS kedge_tools)
    kedge_unit_test(whatif SOURCES whatif_test.c LIBS kedge_tools)
endif()

# An empty program that needs libcudart.so.13, with each of the two ways to say where libraries are.
add_library(rpath_runtime SHARED rpath_runtime.c)
set_target_properties(rpath_runtime PROPERTIES
    PREFIX "" OUTPUT_NAME libcudart SUFFIX .so.13 NO_SONAME OFF
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit/rpath)
target_compile_options(rpath_runtime PRIVATE -g0)
target_link_options(rpath_runtime PRIVATE -Wl,-soname,libcudart.so.13)
foreach(kind rpath runpath)
    add_executable(${kind}_program rpath_program.c)
    target_link_libraries(${kind}_program PRIVATE rpath_runtime)
    set_target_properties(${kind}_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit/rpath)
endforeach()
target_link_options(rpath_program PRIVATE -Wl,--disable-new-dtags)
target_link_options(runpath_program PRIVATE -Wl,--enable-new-dtags)
kedge_unit_test(class_rows SOURCES class_rows_test.c LIBS kedge_tools_base kedge_tools kedge_read ${track_libs})
kedge_unit_test(spawn SOURCES spawn_test.c LIBS kedge_tools
    DEFINES RPATH_PROGRAM="$<TARGET_FILE:rpath_program>" RUNPATH_PROGRAM="$<TARGET_FILE:runpath_program>")
add_dependencies(spawn_test rpath_program runpath_program)

# Its own lines are looked up: debug information whatever the preset.
kedge_unit_test(symbols SOURCES symbols_test.c LIBS kedge_tools DEFINES PLAIN_LIBRARY="$<TARGET_FILE:rpath_runtime>")
target_compile_options(symbols_test PRIVATE -g)
add_dependencies(symbols_test rpath_runtime)

# Names for addresses of small libraries that the script builds.
add_executable(names_helper names_helper.c)
target_link_libraries(names_helper PRIVATE kedge_flags kedge_tools)
set_target_properties(names_helper PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
foreach(case
        "inlined:inlined_calls_have_lines_of_their_own"
        "split:split_debug_information_is_found_beside_its_objects"
        "packed:compressed_debug_information_is_read"
        "fixed:programs_at_a_fixed_address_have_names"
        "separate:separate_debug_files_are_found_by_build_id_and_link"
        "cache:fetched_debug_files_are_found_and_the_network_is_left_alone"
        "rebuilt:another_build_gives_one_note_and_no_name"
        "nameless:another_build_is_noticed_without_a_build_id"
        "stripped:symbol_tables_name_what_they_hold_and_nothing_else"
        "cxx:names_of_cxx_are_readable"
        "gone:files_that_are_gone_and_code_without_a_file_have_words")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    kedge_script_test(unit.names.${name} SCRIPT names.sh ARGS ${part} LABELS unit)
endforeach()

# kedge-replay against a runtime that is wrong on purpose.
add_library(broken_runtime SHARED broken_runtime.c)
target_link_libraries(broken_runtime PRIVATE kedge_flags)
set_target_properties(broken_runtime PROPERTIES
    PREFIX "" OUTPUT_NAME libcudart SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit/broken)
kedge_script_test(unit.replay.wrong_patterns_and_bad_traces_are_told SCRIPT replay_cli.sh LABELS unit)

if(NOT TARGET kedge_cli)
    return()
endif()

# Writes captures without a device, through the capture's own writer.
add_executable(capture_maker capture_maker.c)
target_link_libraries(capture_maker PRIVATE kedge_flags kedge_track kedge_alloc pthread ${CMAKE_DL_LIBS})
target_compile_options(capture_maker PRIVATE -g -O0) # its stacks are part of the test
set_target_properties(capture_maker PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)

# Two readers of the same captures: ours, and one that was made from FORMAT.md alone.
add_executable(capture_text capture_text.c)
target_link_libraries(capture_text PRIVATE kedge_flags kedge_track kedge_read kedge_alloc pthread ${CMAKE_DL_LIBS})
set_target_properties(capture_text PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)
kedge_script_test(unit.format.the_document_alone_reads_what_we_read SCRIPT format_text.sh LABELS unit
    NOT_UNDER address thread undefined)

foreach(case
        "report:report_prints_the_seeds_lines_and_names_the_stacks"
        "first:a_report_says_first_who_made_the_peak_and_last_what_more_there_is"
        "width:no_table_is_wider_than_the_terminal"
        "hints:report_counts_releases_beside_frees"
        "endings:report_works_after_oom_and_kill"
        "escapes:names_of_the_program_are_no_commands_to_a_terminal"
        "places:report_says_who_held_the_memory_without_events"
        "diff:diff_names_the_late_frees_by_site"
        "fail_on:new_leaks_and_runs_with_little_in_common_do_not_pass"
        "unknown:nothing_is_called_in_order_that_was_not_looked_at"
        "suggest:suggest_writes_hints_that_lint_accepts"
        "damage:damaged_captures_are_told_and_nothing_is_decided_by_them"
        "outputs:outputs_replace_regular_files_whole_and_nothing_else"
        "lint:hints_lint_names_line_and_column"
        "words:words_and_exit_codes_are_those_of_the_contract"
        "keys:man_pages_have_the_keys_of_json"
        "man:man_pages_list_the_options_of_help")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    kedge_script_test(unit.cli.${name} SCRIPT tools_cli.sh ARGS ${part} LABELS unit)
endforeach()

foreach(case
        "equal:answers_from_a_bundle_are_those_of_home"
        "packs:a_bundle_holds_what_it_says"
        "modules:packed_modules_have_names_where_the_bundle_has_none"
        "bad:bundles_of_any_bytes_get_one_line")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    kedge_script_test(unit.bundle.${name} SCRIPT bundle_cli.sh ARGS ${part} LABELS unit)
endforeach()

foreach(case
        "words:unit.cli.steps_that_a_program_states_are_counted_one_by_one"
        "csv:unit.cli.r90_steps_are_found_in_traces_not_their_layers"
        "shuffled:unit.cli.r90_shuffled_traces_have_no_steps"
        "loop:preload.cli.r90_detected_steps_of_a_training_loop_are_the_stated_ones"
        "sot:preload.cli.r90_the_subgraphs_of_sot_are_steps_because_it_states_them"
        "trainers:preload.cli.r90_two_steps_of_a_training_loop_are_enough_and_one_is_not"
        "keys:unit.cli.r90_nothing_but_reports_is_linked_with_detected_steps"
        "traces:unit.cli.r90_steps_of_real_traces_are_found_and_layers_are_none")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    string(REGEX MATCH "^[^.]*" label ${name})
    kedge_script_test(${name} SCRIPT steps_cli.sh ARGS ${part} LABELS ${label} TIMEOUT 120)
endforeach()

foreach(case
        "run:run_passes_on_words_exit_codes_and_signals"
        "ranks:run_works_under_launchers_and_above_them"
        "ending:run_ends_with_what_was_held_and_what_to_do_next"
        "rpath:run_finds_the_simulated_runtime_past_a_dt_rpath"
        "small:hints_make_the_bad_subgraph_equal_the_good_one"
        "verify:verify_names_the_hint_that_fails"
        "replay:replay_records_every_allocation"
        "traces:replay_of_real_traces_has_their_peaks")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    kedge_script_test(preload.cli.${name} SCRIPT tools_run.sh ARGS ${part} LABELS preload TIMEOUT 300)
endforeach()
