# SPDX-License-Identifier: MIT
#
# cmake -DOUT=page_text.c -P embed.cmake: page.html with its style and scripts inside, as a C file (page_text.h).
#
# The page's policy lets this style and this script run and no other: it names their SHA-256 in base64, as browsers want it.

cmake_minimum_required(VERSION 3.25)

set(folder ${CMAKE_CURRENT_LIST_DIR})
set(marker "<!-- data -->")

# The hash of a text in base64.
function(hash text result)
    set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(SHA256 hex "${text}")
    string(APPEND hex "00") # 33 bytes: eleven groups of three
    set(encoded "")
    foreach(group RANGE 0 10)
        math(EXPR at "${group} * 6")
        string(SUBSTRING "${hex}" ${at} 6 three)
        foreach(shift 18 12 6 0)
            math(EXPR digit "(0x${three} >> ${shift}) & 63")
            string(SUBSTRING "${digits}" ${digit} 1 letter)
            string(APPEND encoded "${letter}")
        endforeach()
    endforeach()
    string(SUBSTRING "${encoded}" 0 43 encoded)
    set(${result} "${encoded}=" PARENT_SCOPE)
endfunction()

function(bytes text name result)
    string(LENGTH "${text}" length)
    string(HEX "${text}" hex)
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    set(${result} "const unsigned char ${name}[] = {\n${hex}};\nconst size_t ${name}_length = ${length};\n" PARENT_SCOPE)
endfunction()

file(READ ${folder}/page.css style)
set(script "\"use strict\";\n")
foreach(part ${SCRIPTS})
    file(READ ${folder}/${part} text)
    string(APPEND script "${text}")
endforeach()
hash("${style}" style_hash)
hash("${script}" script_hash)

file(READ ${folder}/page.html page)
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "${marker}" middle)
string(LENGTH "${marker}" width)
string(SUBSTRING "${page}" 0 ${middle} head)
math(EXPR behind "${middle} + ${width}")
string(SUBSTRING "${page}" ${behind} -1 tail)
bytes("${head}" page_text_head head)
bytes("${tail}" page_text_tail tail)
file(WRITE ${OUT} "/* SPDX-License-Identifier: MIT */\n#include \"tools/page/page_text.h\"\n\n${head}\n${tail}")
