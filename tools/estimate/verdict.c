/* SPDX-License-Identifier: MIT */
#include "tools/estimate/verdict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"

#define LARGE_ENOUGH (UINT64_C(4) << 40) /* the most that the simulated device may have */

/* No allocator keeps as much in its cache as it has in use. */
#define CACHED_MOST 2

static bool has_succeeded(const struct trial *trial)
{
    return trial->was_stopped || (WIFEXITED(trial->status) && WEXITSTATUS(trial->status) == 0);
}

/* A run on a device that has room for the program beside the most that its contexts may take. */
static int try_just_that(
        struct trial_request request, const struct trial_use *use, bool *ret_succeeded)
{
    uint64_t contexts = use->processes * request.device->most;
    struct trial trial;

    request.memory = request.device->memory > contexts ? request.device->memory - contexts : 0;
    request.capture = NULL;
    *ret_succeeded = false;
    if (request.memory < UINT64_C(2) << 20)
        return CMD_DONE;
    int r = trial_run(&request, &trial);
    *ret_succeeded = r == CMD_DONE && has_succeeded(&trial);
    trial_done(&trial);
    return r;
}

int verdict_find(struct trial_request request, struct verdict *ret)
{
    const struct device *device = request.device;
    bool has_room = false;

    *ret = (struct verdict){0};
    request.memory = LARGE_ENOUGH;
    int r = trial_run(&request, &ret->trial);
    if (r != CMD_DONE)
        return r;
    ret->use = trial_most(&ret->trial);
    ret->least = ret->use.bytes + ret->use.processes * device->least;
    ret->most = ret->use.bytes + ret->use.processes * device->most;
    ret->spare = (int64_t)device->memory - (int64_t)ret->most;
    if (!has_succeeded(&ret->trial)) {
        ret->answer = VERDICT_FAILED;
    } else if (ret->spare >= 0) {
        ret->answer = VERDICT_FITS;
    } else if (ret->use.bytes > CACHED_MOST * device->memory) {
        ret->answer = VERDICT_NOT;
    } else {
        r = try_just_that(request, &ret->use, &has_room);
        ret->answer = has_room ? VERDICT_CLOSE : VERDICT_NOT;
    }
    return r;
}

void verdict_done(struct verdict *verdict)
{
    trial_done(&verdict->trial);
}

char *verdict_new_end(const struct verdict *verdict)
{
    int status = verdict->trial.status;

    return WIFSIGNALED(status)
            ? vec_format("signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)))
            : vec_format("exit status %d", WEXITSTATUS(status));
}
