/* SPDX-License-Identifier: MIT */
/*
 * carrier_program.c - a library that carries a static runtime inside (nvJPEG) meets no device; prints the codes of its calls.
 *
 *     carrier_program LIBRARY
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*property)(int, int *);
    int (*create)(void **);
    int (*create_with)(int, void *, void **);

    if (!library)
        return 2;
    *(void **)&property = dlsym(library, "nvjpegGetCudartProperty");
    *(void **)&create = dlsym(library, "nvjpegCreateSimple");
    *(void **)&create_with = dlsym(library, "nvjpegCreate");
    if (!property || !create || !create_with)
        return 2;
    for (int i = 0; i < 3; i++) {
        int value = -1;
        int code = property(i, &value);

        printf("property %d: %d %d\n", i, code, value);
    }
    for (int i = 0; i < 4; i++) {
        void *handle = NULL;

        printf("create %d\n", create(&handle));
        printf("create with %d: %d\n", i, create_with(i, NULL, &handle));
    }
    return 3;
}
