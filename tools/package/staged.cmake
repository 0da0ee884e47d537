# SPDX-License-Identifier: MIT
#
# What cpack has installed for one generator, before it is packed: Debian's own files and places; for all files one time, and
# rights that do not depend on the umask of whoever packs.

# package_run(COMMAND...): a command that fails ends cpack.
function(package_run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# debian_changelog(file package): there is one entry, since what changed stands in CHANGELOG.md.
function(debian_changelog file package)
    string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
    file(WRITE ${file} "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
        "  * The changes are in /usr/share/doc/kedge/CHANGELOG.md.gz.\n\n"
        " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
endfunction()

# debian_tree(root package): policy wants compressed manuals, a changelog and a copyright file for each package.
function(debian_tree root package)
    set(docs ${root}/share/doc/${package})
    file(REMOVE ${docs}/LICENSE)
    file(COPY ${CPACK_KEDGE_SOURCE_DIR}/tools/package/copyright DESTINATION ${docs})
    debian_changelog(${docs}/changelog ${package})
    file(GLOB_RECURSE texts ${root}/share/man/*.[15] ${root}/share/doc/*.md ${root}/share/doc/*.txt ${docs}/changelog)
    package_run(gzip -9n ${texts})
    if(EXISTS ${root}/share/zsh/site-functions)
        file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)
    endif()
    if(EXISTS ${root}/lib/kedge/python) # to where Debian's Python looks
        file(MAKE_DIRECTORY ${root}/lib/python3)
        file(RENAME ${root}/lib/kedge/python ${root}/lib/python3/dist-packages)
    endif()
    set(overrides ${CPACK_KEDGE_SOURCE_DIR}/tools/package/${package}.overrides)
    if(EXISTS ${overrides})
        file(MAKE_DIRECTORY ${root}/share/lintian/overrides)
        file(COPY_FILE ${overrides} ${root}/share/lintian/overrides/${package})
    endif()
endfunction()

if(CPACK_GENERATOR STREQUAL "DEB")
    find_program(shlibdeps dpkg-shlibdeps PATHS ENV PATH NO_DEFAULT_PATH NO_CACHE)
    if(NOT shlibdeps)
        message(FATAL_ERROR "No Debian packages are made, the tarball is: dpkg-shlibdeps is not here, which finds what they depend on. "
            "It is in Debian's package dpkg-dev, which tools/setup installs.")
    endif()
    foreach(component IN LISTS CPACK_COMPONENTS_ALL)
        string(TOUPPER ${component} name)
        debian_tree(${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX} ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
    endforeach()
endif()
package_run(chmod -R u=rwX,go=rX ${CPACK_TEMPORARY_DIRECTORY})
package_run(find ${CPACK_TEMPORARY_DIRECTORY} -exec touch -hd @$ENV{SOURCE_DATE_EPOCH} {} +)
