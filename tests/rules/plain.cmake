# SPDX-License-Identifier: MIT
#
# The plain heap on real steps.
if(TARGET kedge_cli)
    kedge_script_test(rules.plain.no_more_is_held_than_paddles_policy_would SCRIPT plain_heap.py LABELS regress TIMEOUT 300)
endif()
