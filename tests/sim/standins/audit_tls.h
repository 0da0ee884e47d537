/* SPDX-License-Identifier: MIT */
/*
 * audit_tls.h - room for the thread-local memory of the libraries that a program starts with.
 *
 * Under an auditor the loader fixes the size of static thread-local memory before it maps the
 * program's libraries, and all of them share glibc.rtld.optional_static_tls bytes of it: the
 * runtime of ThreadSanitizer alone has more. A process whose libraries need more than the tunable
 * says begins anew with a larger one, before any code of its own has run. A large tunable for each
 * program would be simpler, but each thread's stack has to hold that memory.
 *
 * Threads: the loader holds its lock around each call of an auditor.
 */
#ifndef KEDGE_TESTS_SIM_AUDIT_TLS_H
#define KEDGE_TESTS_SIM_AUDIT_TLS_H

/*
 * The file of a library that was mapped. Until `audit_tls_end` the process may begin anew (execv)
 * inside the call; if that fails, the loader says later what it has no room for.
 */
void audit_tls_add(const char *file);

/* The libraries that the program starts with are mapped: code has run from now on. */
void audit_tls_end(void);

#endif
