# SPDX-License-Identifier: MIT
kedge_unit_test(pool SOURCES pool_test.c fake_driver.c LIBS kedge_alloc)
kedge_unit_test(pool_random SOURCES pool_random_test.c pool_model.c fake_driver.c LIBS kedge_alloc)
kedge_unit_test(pool_meddle SOURCES pool_meddle_test.c fake_driver.c LIBS kedge_alloc)
