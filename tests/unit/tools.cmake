# SPDX-License-Identifier: MIT
foreach(part align compare launch model render steps args suggest)
    kedge_unit_test(${part} SOURCES ${part}_test.c LIBS kedge_tools)
endforeach()

# Writes captures without a device, through the capture's own writer.
add_executable(capture_maker capture_maker.c)
target_link_libraries(capture_maker PRIVATE kedge_flags kedge_track kedge_alloc pthread ${CMAKE_DL_LIBS})
target_compile_options(capture_maker PRIVATE -g -O0) # its stacks are part of the test
set_target_properties(capture_maker PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/unit)

foreach(case
        "report:report_prints_the_seeds_lines_and_names_the_stacks"
        "hints:report_counts_releases_beside_frees"
        "endings:report_works_after_oom_and_kill"
        "diff:diff_names_the_late_frees_by_site"
        "suggest:suggest_writes_hints_that_lint_accepts"
        "lint:hints_lint_names_line_and_column"
        "words:words_and_exit_codes_are_those_of_the_contract"
        "man:man_pages_list_the_options_of_help")
    string(REGEX MATCH "^[^:]*" part ${case})
    string(REGEX REPLACE "^[^:]*:" "" name ${case})
    kedge_script_test(unit.cli.${name} SCRIPT tools_cli.sh ARGS ${part} LABELS unit)
endforeach()
