/* SPDX-License-Identifier: MIT */
#include "tools/run/launch.h"

#include <argz.h>
#include <envz.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tools/load/captures.h"
#include "tracker/base/config.h"
#include "tracker/base/runmark.h"

const char *launch_value(const struct launch *launch, const char *name)
{
    return envz_get(launch->vars, launch->vars_length, name);
}

/* An empty value counts as not stated. */
static const char *stated(const struct launch *launch, const char *name)
{
    const char *value = launch_value(launch, name);

    return value && *value ? value : NULL;
}

static void launch_drop(struct launch *launch, const char *name)
{
    while (envz_entry(launch->vars, launch->vars_length, name)) /* it may be there twice */
        envz_remove(&launch->vars, &launch->vars_length, name);
}

static void launch_put(struct launch *launch, const char *name, const char *value)
{
    launch_drop(launch, name);
    if (envz_add(&launch->vars, &launch->vars_length, name, value) != 0)
        vec_out_of_memory();
}

static void launch_say(struct launch *launch, char *line)
{
    (void)vec_add_text(&launch->lines, line);
}

/* Whether `word` is in a list separated by any of `separators`. */
static bool has_word(const char *list, const char *word, const char *separators)
{
    size_t length = strlen(word);

    while (*list) {
        size_t n = strcspn(list, separators);
        if (n == length && memcmp(list, word, n) == 0)
            return true;
        list += n;
        list += strspn(list, separators);
    }
    return false;
}

/* Adds an entry to a list with colons. */
static void put_entry(struct launch *launch, const char *name, const char *entry, bool in_front)
{
    const char *old = stated(launch, name);
    char *list = !old  ? vec_text(entry)
            : in_front ? vec_format("%s:%s", entry, old)
                       : vec_format("%s:%s", old, entry);

    launch_put(launch, name, list);
    free(list);
}

static void append_preload(struct launch *launch, const char *object)
{
    const char *old = stated(launch, "LD_PRELOAD");

    if (!old || !has_word(old, object, ": "))
        put_entry(launch, "LD_PRELOAD", object, false);
}

static bool is_other_copy(const struct launch_request *request, const char *object)
{
    for (size_t i = 0; request->others && i < request->others->count; i++)
        if (strcmp(request->others->at[i], object) == 0)
            return true;
    return false;
}

/*
 * Removes other copies of the library, and puts it before an object that would answer look-ups in
 * its place.
 */
static void order_preloads(struct launch *launch, const struct launch_request *request)
{
    char *old = vec_text(stated(launch, "LD_PRELOAD") ? stated(launch, "LD_PRELOAD") : "");
    char *list = vec_text("");
    char *rest = NULL;
    bool stands = false;

    for (char *object = strtok_r(old, ": ", &rest); object; object = strtok_r(NULL, ": ", &rest)) {
        bool is_front = !stands && request->front && strcmp(object, request->front) == 0;
        if (is_other_copy(request, object)) {
            launch_say(launch,
                    vec_format("LD_PRELOAD has another libkedge.so, %s: left out, this one is %s",
                            object, request->library));
            continue;
        }
        if (is_front)
            launch_say(launch,
                    vec_format("LD_PRELOAD has %s, which answers look-ups of functions itself: "
                               "libkedge.so stands before it",
                            object));
        if (stands && strcmp(object, request->library) == 0)
            continue;
        stands |= is_front || strcmp(object, request->library) == 0;
        char *longer = vec_format("%s%s%s%s%s", list, *list ? ":" : "",
                is_front ? request->library : "", is_front ? ":" : "", object);
        free(list);
        list = longer;
    }
    launch_put(launch, "LD_PRELOAD", list);
    free(list);
    free(old);
}

#define STATIC_TLS "glibc.rtld.optional_static_tls"

/*
 * The stand-in of cuDNN has its older interface. Convolutions are asked for through that, and
 * attention, which from capability 9.0 on is cuDNN's first, of PyTorch's own kernels first.
 */
static void put_pytorch(struct launch *launch)
{
    static const char *const names[] = {
            "TORCH_CUDNN_V8_API_DISABLED", "TORCH_CUDNN_SDPA_DEPRIORITIZED"};

    for (size_t i = 0; i < CMD_COUNT(names); i++)
        if (!launch_value(launch, names[i]))
            launch_put(launch, names[i], "1");
}

/*
 * Leads the loader to the simulated device. Under an auditor all libraries share what is left of
 * the static thread-local memory, 512 bytes unless the tunable says more: PyTorch's need some 4 KiB.
 */
static int simulate(struct launch *launch, const char *sim)
{
    const char *tunables; /* valid until a variable is set */
    char *auditor;

    if (strchr(sim, ':')) {
        launch_say(launch, vec_format("%s: a library path cannot hold a colon", sim));
        return -EINVAL;
    }
    auditor = vec_format("%s/libsimaudit.so", sim);
    put_entry(launch, "LD_LIBRARY_PATH", sim, true);
    if (!stated(launch, "LD_AUDIT") || !has_word(stated(launch, "LD_AUDIT"), auditor, ":"))
        put_entry(launch, "LD_AUDIT", auditor, true);
    free(auditor);
    tunables = stated(launch, "GLIBC_TUNABLES");
    if (!tunables || !strstr(tunables, STATIC_TLS "="))
        put_entry(launch, "GLIBC_TUNABLES", STATIC_TLS "=16384", false);
    put_pytorch(launch);
    return 0;
}

static int preload(struct launch *launch, const struct launch_request *request)
{
    if (request->is_foreign) {
        launch_say(launch,
                vec_format("%s is a program of another C library, into which libkedge.so cannot be "
                           "preloaded: started without it",
                        request->command[0]));
        return 0;
    }
    if (strpbrk(request->library, ": ")) {
        launch_say(launch,
                vec_format("%s: LD_PRELOAD cannot hold a path with a blank or a colon",
                        request->library));
        return -EINVAL;
    }
    if (request->front || (request->others && request->others->count))
        order_preloads(launch, request);
    append_preload(launch, request->library);
    return request->sim ? simulate(launch, request->sim) : 0;
}

/* A file name that stays valid when the program changes its directory. */
static char *absolute(const char *directory, const char *file)
{
    if (*file == '/')
        return vec_text(file);
    return vec_format("%s/%s", directory, file);
}

/* The same for a capture's name, where % begins a pattern: those of the directory are escaped. */
static char *absolute_pattern(const char *directory, const char *file)
{
    if (*file == '/')
        return vec_text(file);
    char *quoted = captures_quote(directory);
    char *text = vec_format("%s/%s", quoted, file);
    free(quoted);
    return text;
}

static void put_own(struct launch *launch, const struct launch_request *request)
{
    const char *capture = request->capture;
    char *path;

    if (!capture)
        capture = stated(launch, "KEDGE_CAPTURE");
    path = absolute_pattern(request->directory, capture ? capture : "kedge-%h-%r-%p.kcap");
    launch_put(launch, "KEDGE_CAPTURE", path);
    launch_drop(launch, CONFIG_RUN);
    launch_drop(launch, CONFIG_CACHED);
    launch_drop(launch, RUNMARK_VARIABLE); /* set by an outer run */
    if (request->run) {                    /* the requested name is this run's */
        char *run = vec_format("%s%s", request->run, request->capture ? "+" : "");
        launch_put(launch, CONFIG_RUN, run);
        free(run);
    }
    free(path);
    if (request->hints) {
        bool off = strcmp(request->hints, "off") == 0;
        path = off ? vec_text("off") : absolute(request->directory, request->hints);
        launch_put(launch, "KEDGE_HINTS", path);
        free(path);
    }
    if (request->hints_mode)
        launch_put(launch, "KEDGE_HINTS_MODE", request->hints_mode);
    if (request->mode)
        launch_put(launch, "KEDGE_MODE", request->mode);
    if (request->trace)
        launch_put(launch, "KEDGE_TRACE", request->trace);
}

/* Python buffers its output to a pipe or a file: lines that are anchors would come too late. */
static void put_lines(struct launch *launch)
{
    const char *anchors = stated(launch, "KEDGE_ANCHORS");

    if ((!anchors || strstr(anchors, "log")) && !launch_value(launch, "PYTHONUNBUFFERED"))
        launch_put(launch, "PYTHONUNBUFFERED", "1");
}

/* Whether a key is in PyTorch's "key:value,key:value". */
static bool launch_has_key(const char *list, const char *key)
{
    size_t length = strlen(key);

    for (;;) {
        list += strspn(list, " ,");
        if (!*list)
            return false;
        if (strncmp(list, key, length) == 0 && list[length] == ':')
            return true;
        list += strcspn(list, ",");
    }
}

#define PYTORCH_CONF     "PYTORCH_CUDA_ALLOC_CONF"
#define PYTORCH_CONF_NEW "PYTORCH_ALLOC_CONF"
#define PYTORCH_UNCACHED "PYTORCH_NO_CUDA_MEMORY_CACHING"
#define PYTORCH_NCCL2    "TORCH_DIST_USE_NCCL2"

/* True if the user chose PyTorch's backend; a line says that it is kept. */
static bool is_backend_stated(struct launch *launch, const char *own_choice)
{
    static const char *const names[] = {PYTORCH_CONF, PYTORCH_CONF_NEW};

    for (size_t i = 0; i < CMD_COUNT(names); i++) {
        const char *conf = stated(launch, names[i]);
        if (!conf || !launch_has_key(conf, "backend"))
            continue;
        if (!strstr(conf, own_choice))
            launch_say(launch, vec_format("%s=%s names a backend and is kept", names[i], conf));
        return true;
    }
    return false;
}

static void merge_conf(struct launch *launch, const char *name)
{
    static const char *const ignored[] = {"max_split_size_mb", "roundup_power2_divisions",
            "garbage_collection_threshold", "expandable_segments"};
    const char *old = stated(launch, name);
    char *conf = old ? vec_format("%s,backend:cudaMallocAsync", old)
                     : vec_text("backend:cudaMallocAsync");

    for (size_t i = 0; i < CMD_COUNT(ignored); i++) {
        if (old && launch_has_key(old, ignored[i]))
            launch_say(launch,
                    vec_format("%s: PyTorch ignores %s with backend:cudaMallocAsync", name,
                            ignored[i]));
    }
    launch_put(launch, name, conf);
    free(conf);
}

/*
 * Whether the user disables PyTorch's cache. 2.5 tests whether the variable is set, 2.15 whether it
 * is 1.
 */
static bool is_uncached(struct launch *launch)
{
    const char *value = stated(launch, PYTORCH_UNCACHED);

    if (!value || strcmp(value, "0") == 0)
        return false;
    if (strcmp(value, "1") == 0)
        launch_say(launch,
                vec_text(PYTORCH_UNCACHED " is set and kept: PyTorch allocates by cudaMalloc"));
    else
        launch_say(launch,
                vec_format("%s=%s is kept as you set it; PyTorch 2.5 takes it for 1 and allocates "
                           "by cudaMalloc, 2.15 for 0",
                        PYTORCH_UNCACHED, value));
    return true;
}

/* Whether the program names what the stream API's backend lacks; a line says so. */
static bool keeps_own(struct launch *launch, const struct launch_request *request)
{
    const struct needs *own = &request->frameworks.own;

    if (request->is_api_stated || !own->what)
        return false;
    launch_say(launch,
            vec_format("%s names %s, which backend:cudaMallocAsync lacks: PyTorch keeps its own "
                       "allocator, as with --api framework (--api stream switches it all the same)",
                    own->place, own->what));
    launch_put(launch, CONFIG_CACHED, "1");
    return true;
}

static void pytorch_stream(struct launch *launch, const struct launch_request *request, bool speak)
{
    bool has_new = stated(launch, PYTORCH_CONF_NEW) != NULL;

    if (is_backend_stated(launch, "backend:cudaMallocAsync"))
        return;
    if (is_uncached(launch) || keeps_own(launch, request))
        return;
    if (has_new)
        merge_conf(launch, PYTORCH_CONF_NEW);
    if (!has_new || stated(launch, PYTORCH_CONF))
        merge_conf(launch, PYTORCH_CONF);
    if (speak)
        launch_say(launch,
                vec_text("PyTorch gets backend:cudaMallocAsync, without CUDA tensor IPC, memory "
                         "history, snapshots, MemPool and pool checkpoints (cudagraph trees), "
                         "and " PYTORCH_NCCL2 "=0; --api framework leaves it alone"));
    if (!stated(launch, PYTORCH_NCCL2))
        launch_put(launch, PYTORCH_NCCL2, "0");
    else if (strcmp(stated(launch, PYTORCH_NCCL2), "0") != 0)
        launch_say(launch,
                vec_format("%s=%s is kept as you set it; that process group of NCCL ends a program "
                           "with backend:cudaMallocAsync, use --api sync",
                        PYTORCH_NCCL2, stated(launch, PYTORCH_NCCL2)));
}

/* Switches of frameworks other than PyTorch's stream API: one variable each. */
struct switch_row {
    const char *name, *value, *other; /* not set if the user states `other` */
    const char *lost;
};

/*
 * Sets it unless the user did; prints a line for a user of the framework if something changes, or
 * if another backend is kept.
 */
static void turn(struct launch *launch, const struct switch_row *row, const char *framework)
{
    const char *old = row->name ? stated(launch, row->name) : NULL;

    if (!row->value || (row->other && stated(launch, row->other)))
        return;
    if (framework && !old)
        launch_say(launch,
                vec_format("%s gets %s=%s, %s; --api framework leaves it alone", framework,
                        row->name, row->value, row->lost));
    else if (framework && strcmp(old, row->value) != 0)
        launch_say(launch,
                vec_format("%s=%s is kept as you set it; kedge sees what that allocator asks for",
                        row->name, old));
    if (!old)
        launch_put(launch, row->name, row->value);
}

/* A history that kedge began would be in the snapshots that the program takes. */
static void leave_history(struct launch *launch, const struct launch_request *request)
{
    if (request->frameworks.own.records && !stated(launch, "KEDGE_TENSORS"))
        launch_put(launch, "KEDGE_TENSORS", "read");
}

static void framework_switches(struct launch *launch, const struct launch_request *request)
{
    static const struct switch_row rows[][FRAMEWORK_COUNT] = {
            [LAUNCH_STREAM] = {[FRAMEWORK_TENSORFLOW] = {"TF_GPU_ALLOCATOR", "cuda_malloc_async",
                                       NULL, "without its BFC allocator's statistics"},
                    [FRAMEWORK_JAX] = {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", NULL,
                            "without its BFC allocator's preallocation"},
                    [FRAMEWORK_PADDLE] = {"FLAGS_use_cuda_malloc_async_allocator", "1",
                            "FLAGS_use_system_allocator", "without its auto-growth allocator"}},
            [LAUNCH_SYNC] =
                    {[FRAMEWORK_PYTORCH] = {PYTORCH_UNCACHED, "1", NULL,
                             "without its cache, CUDA tensor IPC, memory history and CUDA graphs"},
                            [FRAMEWORK_TENSORFLOW] = {"TF_GPU_ALLOCATOR", "cuda_malloc", NULL,
                                    "without its BFC allocator"},
                            [FRAMEWORK_JAX] = {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform", NULL,
                                    "without its BFC allocator; 0.10 makes a pool of segments of "
                                    "it, and only --api stream shows its buffers"},
                            [FRAMEWORK_PADDLE] = {"FLAGS_use_system_allocator", "1",
                                    "FLAGS_use_cuda_malloc_async_allocator",
                                    "without its auto-growth allocator"}},
    };
    const struct framework_found *found = &request->frameworks;
    enum launch_api api = request->api;

    if (api == LAUNCH_FRAMEWORK)
        launch_put(launch, CONFIG_CACHED, "1");
    for (unsigned f = 0; f < FRAMEWORK_COUNT; f++) {
        const char *name = found->which & 1U << f ? framework_name(f) : NULL;
        bool is_old_paddle =
                f == FRAMEWORK_PADDLE && found->paddle_major > 0 && found->paddle_major < 3;
        if (api == LAUNCH_FRAMEWORK) {
            if (name && !request->is_silent)
                launch_say(launch,
                        vec_format(f == FRAMEWORK_PYTORCH
                                        ? "%s keeps a cache of its own: kedge sees segments, and "
                                          "tensors by PyTorch's own record (--api stream shows "
                                          "tensors themselves)"
                                        : "%s keeps a cache of its own: kedge sees segments, not "
                                          "tensors (--api stream shows tensors)",
                                name));
        } else if (f == FRAMEWORK_PYTORCH && api == LAUNCH_STREAM)
            pytorch_stream(launch, request, name != NULL);
        else if (f != FRAMEWORK_PYTORCH || !is_backend_stated(launch, "no backend is ours here"))
            turn(launch, &rows[is_old_paddle ? LAUNCH_SYNC : api][f], name);
    }
}

/* The environment in exec's form. */
static void list_vars(struct launch *launch)
{
    free((void *)launch->env);
    launch->env = vec_new(argz_count(launch->vars, launch->vars_length) + 1, sizeof(*launch->env));
    argz_extract(launch->vars, launch->vars_length, launch->env);
}

void launch_add(struct launch *launch, const char *name, const char *value)
{
    launch_put(launch, name, value);
    list_vars(launch);
}

int launch_prepare(const struct launch_request *request, struct launch *ret_launch)
{
    struct launch launch = {.argv = request->command};

    if (argz_create(request->env, &launch.vars, &launch.vars_length) != 0)
        vec_out_of_memory();
    int r = preload(&launch, request);
    if (r == 0) {
        put_own(&launch, request);
        const char *mode = stated(&launch, "KEDGE_MODE");
        if (!mode || strcmp(mode, "off") != 0) {
            put_lines(&launch);
        }
        framework_switches(&launch, request);
        leave_history(&launch, request);
    }
    list_vars(&launch);
    *ret_launch = launch;
    return r;
}

void launch_done(struct launch *launch)
{
    vec_free_texts(&launch->lines);
    free((void *)launch->env);
    free(launch->vars);
    *launch = (struct launch){0};
}
