# SPDX-License-Identifier: MIT
kedge_unit_test(check SOURCES check_test.c)
kedge_script_test(unit.check.failures_and_skips_are_told_apart SCRIPT check_exits.sh LABELS unit)
