# SPDX-License-Identifier: MIT
foreach(part align compare launch model render steps args)
    kedge_unit_test(${part} SOURCES ${part}_test.c LIBS kedge_tools)
endforeach()
