# SPDX-License-Identifier: MIT
kedge_unit_test(sim_memory SOURCES sim_memory_test.c LIBS simcuda)
