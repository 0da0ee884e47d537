# SPDX-License-Identifier: MIT
#
# The same files in packages that are the same whoever packs: cpack's tarball has its files in the order of the disk, with the
# owner that they have there, and its Debian packages have the umask in the rights of their three parts.

function(tarball_again file)
    cmake_path(GET CPACK_TEMPORARY_DIRECTORY PARENT_PATH parent)
    cmake_path(GET CPACK_TEMPORARY_DIRECTORY FILENAME folder)
    execute_process(
        COMMAND tar -C ${parent} --sort=name --owner=root:0 --group=root:0 --mtime=@$ENV{SOURCE_DATE_EPOCH} --format=gnu -cf - ${folder}
        COMMAND gzip -9n
        OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(debian_again file)
    set(folder ${file}.parts)
    set(parts debian-binary control.tar.gz data.tar.xz) # in this order
    file(MAKE_DIRECTORY ${folder})
    execute_process(COMMAND ar x ${file} ${parts} WORKING_DIRECTORY ${folder} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE ${file})
    execute_process(COMMAND ar rcD ${file} ${parts} WORKING_DIRECTORY ${folder} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${folder})
endfunction()

foreach(file IN LISTS CPACK_PACKAGE_FILES)
    if(CPACK_GENERATOR STREQUAL "TGZ")
        tarball_again(${file})
    elseif(CPACK_GENERATOR STREQUAL "DEB")
        debian_again(${file})
    endif()
endforeach()
