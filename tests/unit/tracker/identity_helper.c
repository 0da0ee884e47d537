/* SPDX-License-Identifier: MIT */
/* identity_helper LIBRARY: loads it and prints what a capture would know it by, hexadecimal. */
#include "tracker/stacks/modules.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct intern_counts counts;

    if (argc != 2 || !dlopen(argv[1], RTLD_LAZY) || modules_init(NULL) != 0)
        return 2;
    intern_counts(&counts);
    for (uint32_t i = 1; i <= counts.modules; i++) {
        const struct intern_module *module = intern_module_at(i);

        if (strcmp(intern_text(module->path), argv[1]) == 0)
            return printf("%" PRIx64 "\n", module->hash) < 0;
    }
    return 1;
}
