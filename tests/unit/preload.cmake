# SPDX-License-Identifier: MIT
#
# preload: parts that can be tested alone, then programs under libkedge.so on the simulated device (tests/preload/).

kedge_unit_test(config SOURCES config_test.c ../../preload/config.c ../../preload/msg.c)
kedge_unit_test(guard SOURCES guard_test.c ../../preload/guard.c ../../preload/gate.c LIBS kedge_alloc)
kedge_unit_test(resolve SOURCES resolve_test.c)
