/* SPDX-License-Identifier: MIT */
/*
 * kedge.h - anchors by hand, for programs without NVTX.
 *
 * Header only, nothing to link: the symbols are weak. Under `kedge run` they are defined and record
 * where the program is; in any other run each call is one test of a null address.
 *
 *     KEDGE_PUSH("forward");  ...  KEDGE_POP();      a range of this thread; ranges nest
 *     KEDGE_MARK("epoch 3");                         a moment
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

#ifdef __cplusplus
}
#endif

#define KEDGE_PUSH(name) (kedge_push ? kedge_push(name) : (void)0)
#define KEDGE_POP()      (kedge_pop ? kedge_pop() : (void)0)
#define KEDGE_MARK(name) (kedge_mark ? kedge_mark(name) : (void)0)

#endif
