# SPDX-License-Identifier: MIT
foreach(module bestfit meta lock lookup starts granule fence holder hint)
    kedge_unit_test(${module} SOURCES ${module}_test.c LIBS kedge_alloc)
endforeach()
# it lowers the limit of addresses, of which a sanitizer takes terabytes
kedge_unit_test(table SOURCES table_test.c LIBS kedge_alloc NOT_UNDER address thread)
foreach(part pool pool_quick pool_stream pool_hint pool_pin pool_export pool_choice pool_remap pool_fail pool_full)
    kedge_unit_test(${part} SOURCES ${part}_test.c fake_driver.c LIBS kedge_alloc TIMEOUT 900)
endforeach()
kedge_unit_test(pool_random SOURCES pool_random_test.c pool_model.c fake_driver.c LIBS kedge_alloc TIMEOUT 900)
kedge_unit_test(pool_meddle SOURCES pool_meddle_test.c fake_driver.c LIBS kedge_alloc)
if(TARGET pool_fail_test)
    target_link_options(pool_fail_test PRIVATE
        "LINKER:--wrap=meta_get,--wrap=span_init,--wrap=span_commit,--wrap=slab_take,--wrap=slab_prepare")
endif()
kedge_unit_test(pool_race SOURCES pool_race_test.c fake_driver.c LIBS kedge_alloc LABELS race NAME race.pool TIMEOUT 600)
