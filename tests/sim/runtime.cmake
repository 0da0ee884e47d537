# SPDX-License-Identifier: MIT
# The simulated runtime, once for each major version that programs link: same source, soname and version node differ.
set(runtime_soname_13 libcudart.so.13)
set(runtime_soname_12 libcudart.so.12)
set(runtime_soname_11 libcudart.so.11.0)
foreach(major 13 12 11)
    add_library(simcudart${major} SHARED
        runtime_absent.c runtime_boot.c runtime_copy.c runtime_device.c runtime_graph.c runtime_launch.c
        runtime_memory.c runtime_nodes.c runtime_nvcc.c runtime_stream.c runtime_versions.c)
    target_compile_definitions(simcudart${major} PRIVATE RUNTIME_MAJOR=${major})
    target_link_libraries(simcudart${major} PRIVATE kedge_flags pthread ${CMAKE_DL_LIBS})
    # -Bsymbolic: what the runtime calls of its own is not for preloaded symbols to answer.
    target_link_options(simcudart${major} PRIVATE
        -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/runtime_${major}.map -Wl,-Bsymbolic -Wl,-z,defs)
    string(REPLACE libcudart "" suffix ${runtime_soname_${major}})
    set_target_properties(simcudart${major} PROPERTIES
        OUTPUT_NAME cudart
        SUFFIX ${suffix}
        NO_SONAME TRUE
        LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime_${major}.map)
    target_link_options(simcudart${major} PRIVATE -Wl,-soname,${runtime_soname_${major}})
endforeach()
