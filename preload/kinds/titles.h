/* SPDX-License-Identifier: MIT */
/*
 * titles.h - names of the modules that a training loop calls itself: no two share one.
 *
 *     model(x)                 ""               the first model that is called
 *     self.enc(x)              "enc"            a part of it, as Lightning's training_step calls it
 *     critic(y)                "Critic"         another one: its class; "Critic#2": one more of it
 *     other.enc(x)             "Critic.enc"     a part of that
 *
 * A *model* is a module that no other live module has. Models are looked for among all objects that
 * the collector knows, once for each module that is called outermost; what a program makes for each
 * call is looked for SEARCHES times, then at each doubling. A module that has ended leaves its name
 * to the next one of its class. It has ended if nobody but kedge has its token (pytoken.h), so no
 * object is read that may be gone.
 *
 * Threads: those that hold the GIL of the main interpreter. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_TITLES_H
#define KEDGE_PRELOAD_TITLES_H

struct pyhost_object;

/*
 * The name of a module that is called outermost, for pyhost_parts.name; "" for the first model.
 * NULL: it has none. Valid until the next call.
 */
const char *titles_name(struct pyhost_object *module);

/* The same right after a look, which has found the models. */
void titles_after_look(struct pyhost_object *module);

/* The interpreter has ended. */
void titles_forget(void);

#endif
