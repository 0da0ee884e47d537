/* SPDX-License-Identifier: MIT */
/* A library whose constructor, as it runs while the loader's lock is held, calls back into the program. */
#include <dlfcn.h>
#include <string.h>

__attribute__((constructor)) static void begin(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "while_a_library_begins");
    void (*function)(void) = NULL;

    memcpy(&function, &symbol, sizeof function);
    if (function)
        function();
}
