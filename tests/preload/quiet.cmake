# SPDX-License-Identifier: MIT
if(TARGET simcuda)
    kedge_preload_test(quiet SOURCES quiet_test.c ROUTES dlsym ENVIRONMENT "SIMCUDA_DEVICES=2")
endif()
