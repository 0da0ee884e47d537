# SPDX-License-Identifier: MIT
# The simulated driver. Each test wants a process of its own, which is how ctest runs them.
foreach(part capture context digest entry forms graph image memory module oracle other pool share stream symbols time trouble vmm)
    kedge_unit_test(sim_${part} SOURCES sim_${part}_test.c LIBS simcuda)
endforeach()
kedge_script_test(lint.sim_abi.prototypes_and_layout_are_the_toolkits SCRIPT sim_abi_layout.sh LABELS lint)
target_link_libraries(sim_digest_test PRIVATE m)
# Made by the tests as they are read: packed.
target_include_directories(sim_image_test SYSTEM PRIVATE ${KEDGE_LZ4_INCLUDE} ${KEDGE_ZSTD_INCLUDE})
target_link_libraries(sim_image_test PRIVATE ${KEDGE_LZ4_ARCHIVE} ${KEDGE_ZSTD_ARCHIVE})
