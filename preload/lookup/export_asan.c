/* SPDX-License-Identifier: MIT */
/*
 * AddressSanitizer's runtime, as a shared library, ends a program in which another library comes
 * before it. libkedge.so does, in each program that it is preloaded into, but of the functions that
 * the runtime replaces it exports only those for output and loading, which it passes on. The
 * runtime calls this function for options, unless the program has one of its own; ASAN_OPTIONS
 * takes precedence.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
