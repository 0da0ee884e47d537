# SPDX-License-Identifier: MIT
foreach(module bestfit meta lock lookup starts granule fence holder hint)
    kedge_unit_test(${module} SOURCES ${module}_test.c LIBS kedge_alloc)
endforeach()
# it lowers the limit of addresses, of which a sanitizer takes terabytes
kedge_unit_test(table SOURCES table_test.c LIBS kedge_alloc NOT_UNDER address thread)
kedge_unit_test(pool SOURCES pool_test.c fake_driver.c LIBS kedge_alloc)
kedge_unit_test(pool_random SOURCES pool_random_test.c pool_model.c fake_driver.c LIBS kedge_alloc)
kedge_unit_test(pool_meddle SOURCES pool_meddle_test.c fake_driver.c LIBS kedge_alloc)
