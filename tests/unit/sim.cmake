# SPDX-License-Identifier: MIT
# The simulated driver. Each test wants a process of its own, which is how ctest runs them.
foreach(part capture context entry graph memory module oracle pool stream trouble vmm)
    kedge_unit_test(sim_${part} SOURCES sim_${part}_test.c LIBS simcuda)
endforeach()
