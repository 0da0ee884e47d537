/* SPDX-License-Identifier: MIT */
/*
 * kedge.h - anchors by hand, for programs without NVTX; and the program's memory, as kedge has it.
 *
 * Header only, nothing to link: the symbols are weak. Under `kedge run` they are defined and record
 * where the program is; in any other run each call is one test of a null address.
 *
 *     KEDGE_PUSH("forward");  ...  KEDGE_POP();      a range of this thread; ranges nest
 *     KEDGE_MARK("epoch 3");                         a moment
 *     if (kedge_live) printf("%llu", kedge_live());
 *
 * Names are copied. Any thread. From C and C++.
 */
#ifndef KEDGE_H
#define KEDGE_H

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((weak)) void kedge_push(const char *name);
__attribute__((weak)) void kedge_pop(void);
__attribute__((weak)) void kedge_mark(const char *name);

/* The file of the capture, "" while there is none (before the first call of CUDA, KEDGE_TRACE=off).
 * NULL: kedge is switched off, or this is a child of a process that had used CUDA. */
__attribute__((weak)) const char *kedge_capture(void);

/* Bytes of device memory that the program has now, of all devices. 0 without a capture. */
__attribute__((weak)) unsigned long long kedge_live(void);

/* The most that it had since the last restart, before the first one since it began. restart != 0:
 * from here on anew. */
__attribute__((weak)) unsigned long long kedge_peak(int restart);

/* Of a weak reference of Python's to a tensor, with the GIL: a new tuple, what its memory is and the
 * paths of what refers to it, or None. NULL with an exception: the walk was interrupted. NULL alone:
 * nothing can be walked. */
__attribute__((weak)) void *kedge_held(void *reference);

#ifdef __cplusplus
}
#endif

#define KEDGE_PUSH(name) (kedge_push ? kedge_push(name) : (void)0)
#define KEDGE_POP()      (kedge_pop ? kedge_pop() : (void)0)
#define KEDGE_MARK(name) (kedge_mark ? kedge_mark(name) : (void)0)

#endif
