# SPDX-License-Identifier: MIT
#
# A toolchain for the wheel (tools/package/wheel): zig's C compiler, which links for the glibc of manylinux_2_28 wherever it
# runs, and archives in place of shared libraries. `compiler` is made by that script, and so is the folder of headers: those of
# the system's C library are not for this one.

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEDGE_WHEEL_TOOLS)
set(CMAKE_C_COMPILER ${KEDGE_WHEEL_TOOLS}/compiler)

set(headers ${KEDGE_WHEEL_TOOLS}/include)
foreach(header archive.h archive_entry.h dwarf.h elfutils/libdw.h elfutils/libdwfl.h elfutils/known-dwarf.h elfutils/version.h
        gelf.h libelf.h lz4.h sqlite3.h yaml.h zconf.h zlib.h zstd.h zstd_errors.h)
    find_file(found ${header} PATHS /usr/include /usr/include/x86_64-linux-gnu NO_DEFAULT_PATH NO_CACHE REQUIRED)
    cmake_path(GET header PARENT_PATH folder)
    file(MAKE_DIRECTORY ${headers}/${folder})
    file(CREATE_LINK ${found} ${headers}/${header} SYMBOLIC)
    unset(found)
endforeach()
set(CMAKE_C_FLAGS_INIT "-isystem ${headers}")
foreach(library YAML LZ4 ZSTD LIBSQLITE)
    set(KEDGE_${library}_INCLUDE ${headers} CACHE PATH "")
endforeach()

# archive(OUT name): the static archive of a library.
function(archive out name)
    find_file(found lib${name}.a PATHS /usr/lib/x86_64-linux-gnu NO_DEFAULT_PATH NO_CACHE REQUIRED)
    set(${out} ${found} PARENT_SCOPE)
endfunction()
foreach(pair LIBDW=dw LIBELF=elf LIBARCHIVE=archive ZLIB=z LIBSQLITE=sqlite3 YAML_ARCHIVE=yaml LZ4_ARCHIVE=lz4 ZSTD_ARCHIVE=zstd)
    string(REPLACE = ";" pair ${pair})
    list(GET pair 0 variable)
    list(GET pair 1 name)
    archive(path ${name})
    set(KEDGE_${variable} ${path} CACHE FILEPATH "")
endforeach()
list(PREPEND KEDGE_LIBARCHIVE ${KEDGE_WHEEL_TOOLS}/unsupported.o)
# What these archives call: libdw reads compressed sections and kernels, libarchive writes zstd.
foreach(name elf z lzma bz2 zstd)
    archive(path ${name})
    string(APPEND CMAKE_C_STANDARD_LIBRARIES_INIT " ${path}")
endforeach()
