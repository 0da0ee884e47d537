# SPDX-License-Identifier: MIT
if(TARGET simcuda)
    kedge_preload_test(anchors SOURCES anchors_test.c ROUTES dlsym)
endif()
