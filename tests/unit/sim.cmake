# SPDX-License-Identifier: MIT
# The simulated driver. Each test wants a process of its own, which is how ctest runs them.
foreach(part capture context digest entry forms graph memory module oracle pool share stream symbols time trouble vmm)
    kedge_unit_test(sim_${part} SOURCES sim_${part}_test.c LIBS simcuda)
endforeach()
kedge_script_test(lint.sim_abi.prototypes_and_layout_are_the_toolkits SCRIPT sim_abi_layout.sh LABELS lint)
target_link_libraries(sim_digest_test PRIVATE m)
