/* SPDX-License-Identifier: MIT */
#include "preload/held/asked.h"

#include "preload/base/msg.h"
#include "tracker/capture/capture.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASKED_STACK (2u << 20) /* of the thread; the interpreter runs on it */

static struct format_ask *ask; /* fixed before the thread begins */
static uint32_t current;       /* the request that is being answered */
static asked_answer answer_to; /* fixed by asked_start */

static uint32_t asked_load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

#define ASKED_STORE(word, value) __atomic_store_n(word, value, __ATOMIC_SEQ_CST)

static bool asked_may_go_on(enum format_ask_state state)
{
    ASKED_STORE(&ask->state, (uint32_t)state);
    return asked_load(&ask->withdrawn) != current;
}

static void asked_serve_one(void)
{
    uint32_t walk;

    ASKED_STORE(&ask->result, (uint32_t)answer_to(asked_may_go_on, &walk));
    ASKED_STORE(&ask->walk, walk);
    ASKED_STORE(&ask->state, FORMAT_ASK_LISTENS);
    ASKED_STORE(&ask->answered, current);
    (void)syscall(SYS_futex, &ask->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void *asked_serve(void *unused)
{
    (void)unused;
    (void)prctl(PR_SET_NAME, "kedge");
    for (;;) {
        uint32_t now = asked_load(&ask->asked);

        if (now != current) {
            current = now;
            asked_serve_one();
        } else if (syscall(SYS_futex, &ask->asked, FUTEX_WAIT, now, NULL, NULL, 0) < 0
                && errno != EAGAIN && errno != EINTR) {
            return NULL; /* the file is gone */
        }
    }
}

/* Blocks what is sent; a fault in our own code must reach its handler. */
static void asked_block(sigset_t *ret_was)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all;

    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        (void)sigdelset(&all, faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, ret_was);
}

static void asked_opened(struct format_ask *of)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t was;
    int r;

    ask = of;
    if (pthread_attr_init(&attributes) != 0)
        return;
    (void)pthread_attr_setstacksize(&attributes, ASKED_STACK);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    asked_block(&was);
    ASKED_STORE(&ask->state, FORMAT_ASK_LISTENS);
    r = pthread_create(&thread, &attributes, asked_serve, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (r != 0) {
        ASKED_STORE(&ask->state, FORMAT_ASK_NONE);
        msg_info("no thread for kedge held: error %d", r);
    }
}

void asked_start(asked_answer answer)
{
    answer_to = answer;
    capture_on_open(asked_opened);
}
