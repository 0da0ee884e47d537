/* SPDX-License-Identifier: MIT */
/*
 * Two libraries that both have next_name; the first asks the loader for the next one after itself. An interposed dlsym that
 * calls the real one instead of jumping to it makes the first library find itself (or kedge's next) for ever.
 */
#include <dlfcn.h>
#include <stddef.h>

typedef const char *(*name_fn)(void);

const char *next_name(void);
void *next_default(const char *symbol);

#ifdef NEXT_FIRST
const char *next_name(void)
{
    static int depth;
    name_fn next = (name_fn)dlsym(RTLD_NEXT, "next_name");

    if (!next || depth++ > 2)
        return "itself";
    return next();
}

/* RTLD_DEFAULT sees the caller's own scope: a library that was opened locally finds its own symbols. */
void *next_default(const char *symbol)
{
    void *volatile found =
            dlsym(RTLD_DEFAULT, symbol); /* a call, not a jump: the caller is looked at */

    return found;
}

const char *next_only_here(void);

const char *next_only_here(void)
{
    return "here";
}
#else
const char *next_name(void)
{
    return "the next one";
}
#endif
