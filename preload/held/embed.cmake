# SPDX-License-Identifier: MIT
#
# cmake "-DIN=held.py,..." -DOUT=held_text.c -DNAME=held_text -P embed.cmake: files, one behind the other, as a C string (held_text.h),
# its bytes in hexadecimal.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" IN "${IN}")
foreach(file IN LISTS IN)
    file(READ ${file} one HEX)
    string(APPEND hex "${one}")
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "/* SPDX-License-Identifier: MIT */\n#include \"preload/held/held_text.h\"\n\nconst unsigned char ${NAME}[] = {\n${hex}0};\n")
