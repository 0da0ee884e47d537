# SPDX-License-Identifier: MIT
#
# R22, R78, R84: what a program is told of free and used memory, after any sequence of calls.
if(NOT KEDGE_SANITIZE AND TARGET simcuda)
    kedge_preload_test(figures SOURCES figures_test.c figures_world.c ROUTES gpa LIBS kedge_read kedge_track
        ENVIRONMENT "SIMCUDA_DEVICES=2" "SIMCUDA_MEMORY=512M")
endif()
