/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_park.h"

#include "tests/sim/base/sim_config.h"

#include "tests/sim/base/sim_faults.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 2000
#define TEXT_LENGTH 128

/* SIMCUDA_PARK: call:n:until */
struct rule {
    char call[64];
    char until[TEXT_LENGTH];
    uint64_t at, seen;
};

/* A thread that stands; lies on its stack. */
struct parked {
    char until[TEXT_LENGTH];
    bool go;
    struct parked *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rule rules[16]; /* `seen` guarded by the mutex, the rest fixed after reading */
static unsigned rules_count;
static struct parked *standing;   /* guarded by the mutex */
static unsigned standing_count;   /* guarded by the mutex */
static atomic_uint standing_hint; /* the same, to look at without the mutex */

static __thread char own_call[64]; /* simcuda_park_next; "": nothing */
static __thread char own_until[TEXT_LENGTH];

/* ---- reading ---- */

static bool read_rule(const char *item, struct rule *ret_rule)
{
    const char *number = strchr(item, ':');
    const char *until = number ? strchr(number + 1, ':') : NULL;
    char *end;

    if (!until || number == item || (size_t)(number - item) >= sizeof(ret_rule->call)
            || until[1] == '\0' || strlen(until + 1) >= sizeof(ret_rule->until))
        return false;
    *ret_rule = (struct rule){0};
    memcpy(ret_rule->call, item, (size_t)(number - item));
    ret_rule->at = strtoull(number + 1, &end, 10);
    (void)snprintf(ret_rule->until, sizeof(ret_rule->until), "%s", until + 1);
    return end == until && end != number + 1 && ret_rule->at > 0;
}

void sim_park_read(const char *list)
{
    char *copy, *save = NULL;

    if (!list || !*list)
        return;
    copy = strdup(list);
    if (!copy)
        return;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (rules_count == sizeof(rules) / sizeof(rules[0]))
            sim_config_refuse("SIMCUDA_PARK", item, "more than 16 places");
        if (!read_rule(item, &rules[rules_count]))
            sim_config_refuse("SIMCUDA_PARK", item, "call:n:until expected");
        rules_count++;
    }
    free(copy);
}

/* ---- standing ---- */

static void deadline(struct timespec *ret_time)
{
    clock_gettime(CLOCK_REALTIME, ret_time);
    ret_time->tv_sec += PATIENCE_MS / 1000;
}

static void stand(const char *name, const char *until)
{
    struct parked me = {0};
    struct timespec end;
    struct parked **link = &standing;
    int r = 0;

    (void)snprintf(me.until, sizeof(me.until), "%s", until);
    deadline(&end);
    pthread_mutex_lock(&mutex);
    me.next = standing;
    standing = &me;
    atomic_store(&standing_hint, ++standing_count);
    pthread_cond_broadcast(&changed);
    while (!me.go && r == 0)
        r = pthread_cond_timedwait(&changed, &mutex, &end);
    while (*link != &me)
        link = &(*link)->next;
    *link = me.next;
    atomic_store(&standing_hint, --standing_count);
    bool let_go = me.go;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);

    sim_lock();
    sim_stats.parks++;
    if (!let_go)
        sim_stats.park_timeouts++;
    sim_unlock();
    if (!let_go)
        sim_say("a thread stood at %s until %s, which did not happen in %d ms", name,
                me.until[0] ? me.until : "it is let go", PATIENCE_MS);
}

/* Whether this call of `name` is one of SIMCUDA_PARK, which is copied then. */
static bool find_rule(const char *name, char *ret_until)
{
    bool found = false;

    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < rules_count; i++)
        if (sim_faults_is(name, rules[i].call) && ++rules[i].seen == rules[i].at && !found) {
            found = true;
            memcpy(ret_until, rules[i].until, TEXT_LENGTH);
        }
    pthread_mutex_unlock(&mutex);
    return found;
}

void sim_park_enter(const char *name)
{
    char until[TEXT_LENGTH];

    if (own_call[0] && sim_faults_is(name, own_call)) {
        own_call[0] = '\0';
        stand(name, own_until);
    }
    if (rules_count && find_rule(name, until))
        stand(name, until);
}

static bool is_meant(const char *name, const char *until)
{
    char list[TEXT_LENGTH];
    char *save = NULL;

    (void)snprintf(list, sizeof(list), "%s", until);
    for (char *item = strtok_r(list, "|", &save); item; item = strtok_r(NULL, "|", &save))
        if (sim_faults_is(name, item))
            return true;
    return false;
}

void sim_park_leave(const char *name)
{
    if (atomic_load(&standing_hint) == 0)
        return;
    pthread_mutex_lock(&mutex);
    for (struct parked *parked = standing; parked; parked = parked->next)
        if (!parked->go && is_meant(name, parked->until)) {
            parked->go = true;
            pthread_cond_broadcast(&changed);
        }
    pthread_mutex_unlock(&mutex);
}

/* ---- for tests ---- */

void simcuda_park_next(const char *call, const char *until)
{
    (void)snprintf(own_call, sizeof(own_call), "%s", call);
    (void)snprintf(own_until, sizeof(own_until), "%s", until ? until : "");
}

bool simcuda_wait_parked(unsigned count)
{
    struct timespec end;
    int r = 0;

    deadline(&end);
    pthread_mutex_lock(&mutex);
    while (standing_count < count && r == 0)
        r = pthread_cond_timedwait(&changed, &mutex, &end);
    bool there = standing_count >= count;
    pthread_mutex_unlock(&mutex);
    return there;
}

void simcuda_unpark(void)
{
    pthread_mutex_lock(&mutex);
    for (struct parked *parked = standing; parked; parked = parked->next)
        parked->go = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}
