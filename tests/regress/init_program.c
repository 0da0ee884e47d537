/* SPDX-License-Identifier: MIT */
/* A program that comes as far with CUDA as its word says: "" = cuInit, load = the driver alone, apart = in a namespace of its own. */
#include <dlfcn.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    void *driver = strcmp(how, "apart") == 0 ? dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW)
                                             : dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, "cuInit") : NULL;
    int (*init)(unsigned flags);

    if (!found)
        return 2;
    memcpy(&init, &found, sizeof init);
    return strcmp(how, "load") != 0 && init(0) != 0;
}
