# SPDX-License-Identifier: MIT
#
# The tarball once more, by tar: cpack takes the files in the order of the disk, and their owner from whoever packs.

if(CPACK_GENERATOR STREQUAL "TGZ")
    cmake_path(GET CPACK_TEMPORARY_DIRECTORY PARENT_PATH parent)
    cmake_path(GET CPACK_TEMPORARY_DIRECTORY FILENAME folder)
    execute_process(
        COMMAND tar -C ${parent} --sort=name --owner=root:0 --group=root:0 --mode=u+w,go-w --mtime=@$ENV{SOURCE_DATE_EPOCH}
            --format=gnu -cf - ${folder}
        COMMAND gzip -9n
        OUTPUT_FILE ${CPACK_PACKAGE_FILES} COMMAND_ERROR_IS_FATAL ANY)
endif()
