/* SPDX-License-Identifier: MIT */
/*
 * Prints what each look-up of each name that kedge exports finds, and in which object: by RTLD_DEFAULT, RTLD_NEXT, the program's own
 * handle and that of the driver. usage: absent_program none|local|global [LIBRARY...]: how the driver and the others have been
 * opened, if at all; absent_program plugin LIBRARY: the look-ups of a library that is linked with the driver, and of what it needs
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define HOOK(symbol, ...) #symbol,
#define EXPORT(symbol)    #symbol,
#include "preload/base/hooks.def"
};

static void tell(const char *route, const char *name, void *fn)
{
    const char *where = "nowhere";
    Dl_info info;

    if (fn && dladdr(fn, &info) && info.dli_fname)
        where = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
    printf("%s %s %s\n", route, name, where);
}

static int tell_plugin(const char *path)
{
    static const char *const routes[] = {
            "absent_plugin_default", "absent_plugin_next", "absent_sub_default", "absent_sub_next"};
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; plugin && i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; strncmp(names[i], "cu", 2) == 0 && k < sizeof routes / sizeof *routes;
                k++) {
            void *(*ask)(const char *) = (void *(*)(const char *))dlsym(plugin, routes[k]);

            tell(routes[k], names[i], ask(names[i]));
        }
    return !plugin;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "none";
    int scope = strcmp(how, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void *driver = strcmp(how, "none") == 0 || strcmp(how, "plugin") == 0
            ? NULL
            : dlopen("libcuda.so.1", RTLD_NOW | scope);
    void *self = dlopen(NULL, RTLD_NOW);

    if (argc > 2 && strcmp(how, "plugin") == 0)
        return tell_plugin(argv[2]);

    for (int i = 2; driver && i < argc; i++)
        if (!dlopen(argv[i], RTLD_LAZY | scope))
            return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(names[i], "cu", 2) != 0 && strncmp(names[i], "nccl", 4) != 0
                && strncmp(names[i], "nvtx", 4) != 0)
            continue;
        tell("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
        tell("next", names[i], dlsym(RTLD_NEXT, names[i]));
        tell("self", names[i], dlsym(self, names[i]));
        if (driver)
            tell("driver", names[i], dlsym(driver, names[i]));
    }
    return !self || (!driver && strcmp(how, "none") != 0);
}
