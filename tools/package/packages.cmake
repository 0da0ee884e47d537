# SPDX-License-Identifier: MIT
#
# `cpack` in the binary directory: a tarball of everything, and the Debian packages kedge and kedge-sim.

set(CPACK_PACKAGE_VENDOR "The kedge developers")
set(CPACK_PACKAGE_CONTACT "The kedge developers <kedge@packages.invalid>" CACHE STRING "who maintains the packages")
set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL kedge)
if(TARGET simcuda)
    list(APPEND CPACK_COMPONENTS_ALL sim)
endif()

set(CPACK_GENERATOR TGZ DEB) # the second one fails where it cannot be made (staged.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_KEDGE_PACKAGE_NAME kedge)
# Opened at run time: without libstdc++ names of C++ stay as the linker has them.
set(CPACK_DEBIAN_KEDGE_PACKAGE_RECOMMENDS "libstdc++6")
set(CPACK_DEBIAN_KEDGE_PACKAGE_SUGGESTS "kedge-sim, python3")
# cpack has the loader's cache renewed where a shared object lies one folder below /usr/lib. The cache knows nothing of that
# folder; scripts of these names that are no files make cpack write none (it warns of them).
set(CPACK_DEBIAN_KEDGE_PACKAGE_CONTROL_EXTRA no/postinst no/postrm ${CMAKE_CURRENT_SOURCE_DIR}/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_KEDGE_DESCRIPTION "CUDA memory interposer for unmodified programs
kedge shows where the device memory of a CUDA program goes, and lowers the
peak of a training run. Its library is preloaded into the program, serves
device memory from a pool and records each allocation with its call site.
Its command reads these records, finds what is freed too late, writes hints
that release it earlier, and checks that they are safe.")
set(CPACK_DEBIAN_SIM_PACKAGE_NAME kedge-sim)
set(CPACK_DEBIAN_SIM_PACKAGE_DEPENDS "kedge (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SIM_DESCRIPTION "simulated CUDA device for kedge
For `kedge run --sim` on machines without a GPU: a CUDA driver and runtime
that run memory, stream, event, copy and graph calls in the memory of the
host, and NCCL between processes. They lie in a folder of their own, where
no other program finds them.")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # else it stands before each of these

# Read by each generator in turn; before and behind it.
set(CPACK_KEDGE_SOURCE_DIR ${CMAKE_SOURCE_DIR})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/epoch.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/staged.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/packed.cmake)
include(CPack)
