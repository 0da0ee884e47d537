/* SPDX-License-Identifier: MIT */
/* covers: launch.c */
#include "tests/check.h"

#include "tools/run/launch.h"

#include <errno.h>

static char *command[] = {(char[]){"prog"}, (char[]){"--json"}, NULL};

static struct launch prepared(struct launch_request request, char *const *env)
{
    struct launch launch;
    request.command = command;
    request.env = env;
    if (!request.library)
        request.library = "/opt/kedge/libkedge.so";
    request.directory = "/home/me";
    REQUIRE_EQ(launch_prepare(&request, &launch), 0);
    return launch;
}

static const char *value(const struct launch *launch, const char *name)
{
    const char *found = launch_value(launch, name);
    return found ? found : "(none)";
}

static bool has_line(const struct launch *launch, const char *part)
{
    for (size_t i = 0; i < launch->lines.count; i++) {
        if (strstr(launch->lines.at[i], part))
            return true;
    }
    return false;
}

static char *no_env[] = {NULL};

enum {
    PYTORCH = 1 << FRAMEWORK_PYTORCH,
    JAX = 1 << FRAMEWORK_JAX,
    PADDLE = 1 << FRAMEWORK_PADDLE,
};

TEST(the_command_is_passed_on_unchanged)
{
    char *env[] = {(char[]){"A=1"}, (char[]){"KEDGE_CAPTURE=x"}, (char[]){"KEDGE_CAPTURE=y"}, NULL};
    struct launch l = prepared((struct launch_request){.capture = "/z"}, env);
    CHECK_STR_EQ(l.argv[0], "prog");
    CHECK_STR_EQ(l.argv[1], "--json");
    CHECK(l.argv[2] == NULL);
    CHECK_STR_EQ(l.env[0], "A=1");
    size_t count = 0;
    while (l.env[count])
        CHECK(strchr(l.env[count++], '=') != NULL);
    CHECK_GE(count, 2);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/z");
    launch_done(&l);
}

TEST(the_users_preloads_stay_first_and_kedge_comes_once)
{
    char *env[] = {(char[]){"LD_PRELOAD=/a.so /b.so"}, NULL};
    struct launch l = prepared((struct launch_request){0}, env);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/a.so /b.so:/opt/kedge/libkedge.so");
    launch_done(&l);

    char *again[] = {(char[]){"LD_PRELOAD=/a.so:/opt/kedge/libkedge.so"}, NULL};
    l = prepared((struct launch_request){0}, again);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/a.so:/opt/kedge/libkedge.so");
    launch_done(&l);

    char *empty[] = {(char[]){"LD_PRELOAD="}, NULL};
    l = prepared((struct launch_request){0}, empty);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/opt/kedge/libkedge.so");
    launch_done(&l);
}

TEST(kedge_stands_before_what_answers_look_ups)
{
    char *env[] = {(char[]){"LD_PRELOAD=/malloc.so:/quota.so /b.so"}, NULL};
    struct launch l = prepared((struct launch_request){.front = "/quota.so"}, env);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/malloc.so:/opt/kedge/libkedge.so:/quota.so:/b.so");
    CHECK(has_line(&l, "/quota.so"));
    launch_done(&l);

    char *behind[] = {(char[]){"LD_PRELOAD=/quota.so:/opt/kedge/libkedge.so"}, NULL};
    l = prepared((struct launch_request){.front = "/quota.so"}, behind);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/opt/kedge/libkedge.so:/quota.so");
    launch_done(&l);

    char *before[] = {(char[]){"LD_PRELOAD=/opt/kedge/libkedge.so:/quota.so"}, NULL};
    l = prepared((struct launch_request){.front = "/quota.so"}, before);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/opt/kedge/libkedge.so:/quota.so");
    CHECK_EQ(l.lines.count, 0);
    launch_done(&l);
}

TEST(other_copies_of_the_library_are_left_out)
{
    char *env[] = {(char[]){"LD_PRELOAD=/usr/lib/kedge/libkedge.so:/a.so"}, NULL};
    char *copies[] = {(char[]){"/usr/lib/kedge/libkedge.so"}};
    struct vec_texts others = {.at = copies, .count = 1};
    struct launch l = prepared((struct launch_request){.others = &others}, env);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/a.so:/opt/kedge/libkedge.so");
    CHECK(has_line(&l, "/usr/lib/kedge/libkedge.so"));
    launch_done(&l);

    char *alone[] = {(char[]){"LD_PRELOAD=/usr/lib/kedge/libkedge.so"}, NULL};
    l = prepared((struct launch_request){.others = &others}, alone);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/opt/kedge/libkedge.so");
    launch_done(&l);
}

TEST(nothing_is_preloaded_into_a_program_of_another_c_library)
{
    struct launch l = prepared((struct launch_request){.is_foreign = true}, no_env);
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "(none)");
    CHECK(has_line(&l, "another C library"));
    launch_done(&l);
}

TEST(a_library_path_that_ld_preload_cannot_hold_is_refused)
{
    struct launch_request request = {
            .command = command, .env = no_env, .library = "/my dir/libkedge.so", .directory = "/"};
    struct launch l;
    CHECK_EQ(launch_prepare(&request, &l), -EINVAL);
    CHECK(has_line(&l, "/my dir/libkedge.so"));
    launch_done(&l);
}

TEST(the_simulated_device_comes_first_and_its_auditor_leads_there)
{
    char *env[] = {(char[]){"LD_LIBRARY_PATH=/usr/local/cuda/lib64"}, NULL};
    struct launch l = prepared((struct launch_request){.sim = "/sim"}, env);
    CHECK_STR_EQ(value(&l, "LD_LIBRARY_PATH"), "/sim:/usr/local/cuda/lib64");
    CHECK_STR_EQ(value(&l, "LD_PRELOAD"), "/opt/kedge/libkedge.so");
    CHECK_STR_EQ(value(&l, "LD_AUDIT"), "/sim/libsimaudit.so");
    CHECK_STR_EQ(value(&l, "GLIBC_TUNABLES"), "glibc.rtld.optional_static_tls=16384");
    CHECK_STR_EQ(value(&l, "TORCH_CUDNN_V8_API_DISABLED"), "1");
    CHECK_STR_EQ(value(&l, "TORCH_CUDNN_SDPA_DEPRIORITIZED"), "1");
    launch_done(&l);

    l = prepared((struct launch_request){0}, env);
    CHECK_STR_EQ(value(&l, "LD_LIBRARY_PATH"), "/usr/local/cuda/lib64");
    CHECK_STR_EQ(value(&l, "LD_AUDIT"), "(none)");
    CHECK_STR_EQ(value(&l, "GLIBC_TUNABLES"), "(none)");
    launch_done(&l);
}

TEST(r94_what_the_user_states_for_the_loader_is_kept_beside_the_simulated_device)
{
    char *env[] = {(char[]){"LD_AUDIT=/mine.so:/sim/libsimaudit.so"},
            (char[]){"GLIBC_TUNABLES=glibc.malloc.check=3"},
            (char[]){"TORCH_CUDNN_V8_API_DISABLED=0"}, NULL};
    struct launch l = prepared((struct launch_request){.sim = "/sim"}, env);
    CHECK_STR_EQ(value(&l, "LD_AUDIT"), "/mine.so:/sim/libsimaudit.so");
    CHECK_STR_EQ(value(&l, "GLIBC_TUNABLES"),
            "glibc.malloc.check=3:glibc.rtld.optional_static_tls=16384");
    CHECK_STR_EQ(value(&l, "TORCH_CUDNN_V8_API_DISABLED"), "0");
    launch_done(&l);

    char *more[] = {(char[]){"GLIBC_TUNABLES=glibc.rtld.optional_static_tls=99999"}, NULL};
    l = prepared((struct launch_request){.sim = "/sim"}, more);
    CHECK_STR_EQ(value(&l, "GLIBC_TUNABLES"), "glibc.rtld.optional_static_tls=99999");
    launch_done(&l);
}

TEST(file_names_become_absolute)
{
    struct launch l =
            prepared((struct launch_request){.capture = "a.kcap", .hints = "h.yaml"}, no_env);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/home/me/a.kcap");
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS"), "/home/me/h.yaml");
    launch_done(&l);

    l = prepared((struct launch_request){.capture = "/x/a.kcap", .hints = "off"}, no_env);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/x/a.kcap");
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS"), "off");
    launch_done(&l);

    l = prepared((struct launch_request){0}, no_env);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/home/me/kedge-%h-%r-%p.kcap");
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS"), "(none)");
    launch_done(&l);

    char *env[] = {(char[]){"KEDGE_CAPTURE=b.kcap"}, (char[]){"KEDGE_HINTS=mine.yaml"}, NULL};
    l = prepared((struct launch_request){0}, env);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/home/me/b.kcap");
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS"), "mine.yaml");
    launch_done(&l);
}

TEST(a_percent_in_the_directory_is_no_pattern)
{
    struct launch_request request = {.command = command,
            .env = no_env,
            .library = "/l.so",
            .directory = "/100%p",
            .capture = "a-%p.kcap"};
    struct launch l;
    REQUIRE_EQ(launch_prepare(&request, &l), 0);
    CHECK_STR_EQ(value(&l, "KEDGE_CAPTURE"), "/100%%p/a-%p.kcap");
    launch_done(&l);
}

TEST(python_prints_at_once_where_lines_are_anchors)
{
    static const struct {
        const char *variable, *wanted;
    } cases[] = {
            {"A=b", "1"},
            {"KEDGE_ANCHORS=nvtx,log", "1"},
            {"KEDGE_ANCHORS=log=Epoch {}", "1"},
            {"KEDGE_ANCHORS=nvtx,marks", "(none)"},
            {"KEDGE_ANCHORS=none", "(none)"},
            {"KEDGE_MODE=off", "(none)"},
            {"PYTHONUNBUFFERED=", ""},
            {"PYTHONUNBUFFERED=x", "x"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char variable[64];
        char *env[] = {strcpy(variable, cases[i].variable), NULL};
        struct launch l = prepared((struct launch_request){0}, env);

        CHECK_STR_EQ(value(&l, "PYTHONUNBUFFERED"), cases[i].wanted);
        launch_done(&l);
    }
}

TEST(given_modes_replace_those_of_the_environment)
{
    char *env[] = {(char[]){"KEDGE_MODE=pool"}, (char[]){"KEDGE_HINTS_MODE=live"}, NULL};
    struct launch l = prepared(
            (struct launch_request){.mode = "track", .hints_mode = "trap", .trace = "full"}, env);
    CHECK_STR_EQ(value(&l, "KEDGE_MODE"), "track");
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS_MODE"), "trap");
    CHECK_STR_EQ(value(&l, "KEDGE_TRACE"), "full");
    launch_done(&l);
    l = prepared((struct launch_request){0}, env);
    CHECK_STR_EQ(value(&l, "KEDGE_HINTS_MODE"), "live");
    launch_done(&l);
}

TEST(the_stream_entrance_switches_all_frameworks)
{
    struct launch l = prepared(
            (struct launch_request){.api = LAUNCH_STREAM, .frameworks = {.which = PYTORCH}},
            no_env);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync");
    CHECK_STR_EQ(value(&l, "PYTORCH_ALLOC_CONF"), "(none)");
    CHECK_STR_EQ(value(&l, "TF_GPU_ALLOCATOR"), "cuda_malloc_async");
    CHECK_STR_EQ(value(&l, "XLA_PYTHON_CLIENT_ALLOCATOR"), "cuda_async");
    CHECK_STR_EQ(value(&l, "FLAGS_use_cuda_malloc_async_allocator"), "1");
    CHECK_STR_EQ(value(&l, "PYTORCH_NO_CUDA_MEMORY_CACHING"), "(none)");
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "without CUDA tensor IPC"));
    launch_done(&l);
}

/* Snapshots of the program have in them what they have without kedge. */
TEST(r94_a_history_of_the_programs_own_is_read_alone)
{
    struct framework_found history = {.which = PYTORCH, .own = {.records = true}};
    char *stated[] = {(char[]){"KEDGE_TENSORS=on"}, NULL};
    struct launch l = prepared(
            (struct launch_request){.api = LAUNCH_FRAMEWORK, .frameworks = history}, no_env);

    CHECK_STR_EQ(value(&l, "KEDGE_TENSORS"), "read");
    launch_done(&l);
    l = prepared((struct launch_request){.api = LAUNCH_FRAMEWORK, .frameworks = history}, stated);
    CHECK_STR_EQ(value(&l, "KEDGE_TENSORS"), "on");
    launch_done(&l);
}

TEST(r94_pytorch_keeps_an_allocator_that_the_program_needs)
{
    struct framework_found pool = {
            .which = PYTORCH, .own = {.what = "MemPool", .place = "train.py:7"}};
    char *conf[] = {(char[]){"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"}, NULL};
    struct launch l =
            prepared((struct launch_request){.api = LAUNCH_STREAM, .frameworks = pool}, no_env);

    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "(none)");
    CHECK_STR_EQ(value(&l, "PYTORCH_ALLOC_CONF"), "(none)");
    CHECK_STR_EQ(value(&l, "TORCH_DIST_USE_NCCL2"), "(none)");
    CHECK_STR_EQ(value(&l, "TF_GPU_ALLOCATOR"), "cuda_malloc_async");
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "train.py:7 names MemPool"));
    CHECK_STR_EQ(value(&l, "_KEDGE_CACHED"), "1");
    CHECK_STR_EQ(value(&l, "KEDGE_TENSORS"), "(none)");
    launch_done(&l);

    /* what the user states holds */
    l = prepared(
            (struct launch_request){
                    .api = LAUNCH_STREAM, .is_api_stated = true, .frameworks = pool},
            no_env);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync");
    CHECK(!has_line(&l, "MemPool, which"));
    launch_done(&l);
    l = prepared((struct launch_request){.api = LAUNCH_STREAM, .frameworks = pool}, conf);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync");
    CHECK(!has_line(&l, "keeps its own"));
    launch_done(&l);
}

/* PyTorch 2.15's newer process group of NCCL takes a snapshot at its end, which this backend answers with an exception. */
TEST(r94_pytorch_gets_the_process_group_that_the_stream_entrance_can_have)
{
    char *newer[] = {(char[]){"TORCH_DIST_USE_NCCL2=1"}, NULL};
    struct launch l = prepared(
            (struct launch_request){.api = LAUNCH_STREAM, .frameworks = {.which = PYTORCH}},
            no_env);
    CHECK_STR_EQ(value(&l, "TORCH_DIST_USE_NCCL2"), "0");
    CHECK(has_line(&l, "TORCH_DIST_USE_NCCL2=0"));
    launch_done(&l);

    l = prepared(
            (struct launch_request){.api = LAUNCH_STREAM, .frameworks = {.which = PYTORCH}}, newer);
    CHECK_STR_EQ(value(&l, "TORCH_DIST_USE_NCCL2"), "1");
    CHECK(has_line(&l, "TORCH_DIST_USE_NCCL2=1 is kept as you set it"));
    launch_done(&l);

    l = prepared((struct launch_request){.api = LAUNCH_SYNC}, no_env);
    CHECK_STR_EQ(value(&l, "TORCH_DIST_USE_NCCL2"), "(none)");
    launch_done(&l);
}

TEST(a_plain_program_is_told_nothing_about_frameworks)
{
    struct launch l = prepared((struct launch_request){.api = LAUNCH_STREAM}, no_env);
    CHECK_EQ(l.lines.count, 0);
    launch_done(&l);
}

TEST(the_sync_entrance_switches_all_frameworks)
{
    struct launch l = prepared((struct launch_request){.api = LAUNCH_SYNC}, no_env);
    CHECK_STR_EQ(value(&l, "PYTORCH_NO_CUDA_MEMORY_CACHING"), "1");
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "(none)");
    CHECK_STR_EQ(value(&l, "TF_GPU_ALLOCATOR"), "cuda_malloc");
    CHECK_STR_EQ(value(&l, "XLA_PYTHON_CLIENT_ALLOCATOR"), "platform");
    CHECK_STR_EQ(value(&l, "FLAGS_use_system_allocator"), "1");
    launch_done(&l);

    /* What of JAX 0.10 is not to be had there is said. */
    l = prepared((struct launch_request){.api = LAUNCH_SYNC, .frameworks = {.which = JAX}}, no_env);
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "only --api stream shows its buffers"));
    launch_done(&l);
}

TEST(r94_the_framework_entrance_touches_no_framework)
{
    struct launch l = prepared(
            (struct launch_request){.api = LAUNCH_FRAMEWORK, .frameworks = {.which = PYTORCH}},
            no_env);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "(none)");
    CHECK_STR_EQ(value(&l, "TF_GPU_ALLOCATOR"), "(none)");
    CHECK(has_line(&l, "segments, and tensors by PyTorch's own record"));
    launch_done(&l);
}

TEST(r94_pytorchs_other_settings_are_merged_and_the_lost_ones_named)
{
    char *env[] = {
            (char[]){"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,pinned_use_host_register:True"},
            NULL};
    struct launch l = prepared((struct launch_request){.api = LAUNCH_STREAM}, env);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"),
            "max_split_size_mb:128,pinned_use_host_register:True,backend:cudaMallocAsync");
    CHECK(has_line(&l, "ignores max_split_size_mb"));
    CHECK_EQ(l.lines.count, 1);
    launch_done(&l);

    char *newer[] = {(char[]){"PYTORCH_ALLOC_CONF=expandable_segments:True"}, NULL};
    l = prepared((struct launch_request){.api = LAUNCH_STREAM}, newer);
    CHECK_STR_EQ(
            value(&l, "PYTORCH_ALLOC_CONF"), "expandable_segments:True,backend:cudaMallocAsync");
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "(none)"); /* it would hide the other */
    launch_done(&l);

    char *both[] = {
            (char[]){"PYTORCH_ALLOC_CONF=a:1"}, (char[]){"PYTORCH_CUDA_ALLOC_CONF=b:2"}, NULL};
    l = prepared((struct launch_request){.api = LAUNCH_STREAM}, both);
    CHECK_STR_EQ(value(&l, "PYTORCH_ALLOC_CONF"), "a:1,backend:cudaMallocAsync");
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "b:2,backend:cudaMallocAsync");
    launch_done(&l);
}

TEST(each_framework_that_is_used_gets_a_line_of_its_own)
{
    struct launch l = prepared((struct launch_request){.frameworks = {.which = JAX}}, no_env);
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "JAX gets XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, without"));
    launch_done(&l);

    l = prepared((struct launch_request){.frameworks = {.which = PADDLE}}, no_env);
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "PaddlePaddle gets FLAGS_use_cuda_malloc_async_allocator=1, without"));
    launch_done(&l);

    /* 2.6 does not know that flag. */
    l = prepared(
            (struct launch_request){.frameworks = {.which = PADDLE, .paddle_major = 2}}, no_env);
    CHECK_STR_EQ(value(&l, "FLAGS_use_system_allocator"), "1");
    CHECK_STR_EQ(value(&l, "FLAGS_use_cuda_malloc_async_allocator"), "(none)");
    CHECK(has_line(&l, "PaddlePaddle gets FLAGS_use_system_allocator=1, without"));
    launch_done(&l);

    l = prepared((struct launch_request){.api = LAUNCH_FRAMEWORK, .frameworks = {.which = PADDLE}},
            no_env);
    CHECK_EQ(l.lines.count, 1);
    CHECK(has_line(&l, "PaddlePaddle keeps a cache of its own"));
    CHECK_STR_EQ(value(&l, "_KEDGE_CACHED"), "1");
    launch_done(&l);

    l = prepared(
            (struct launch_request){
                    .api = LAUNCH_FRAMEWORK, .is_silent = true, .frameworks = {.which = PADDLE}},
            no_env);
    CHECK_EQ(l.lines.count, 0);
    launch_done(&l);

    l = prepared((struct launch_request){.api = LAUNCH_SYNC},
            (char *[]){(char[]){"_KEDGE_CACHED=1"}, NULL});
    CHECK_STR_EQ(value(&l, "_KEDGE_CACHED"), "(none)");
    launch_done(&l);
}

/* What counts as set differs between versions of PyTorch (seen in 2.5.1 and 2.15.0). */
TEST(r94_pytorch_without_its_cache_is_what_the_variable_says)
{
    static const struct {
        const char *value, *conf, *sync; /* of the stream API; the variable with the sync one */
    } cases[] = {
            {"1", "(none)", "1"},
            {"0", "backend:cudaMallocAsync", "0"},
            {"", "backend:cudaMallocAsync", "1"},
            {"yes", "(none)", "yes"},
    };
    char variable[64];
    char *env[] = {variable, NULL};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(variable, sizeof variable, "PYTORCH_NO_CUDA_MEMORY_CACHING=%s", cases[i].value);
        struct launch l = prepared((struct launch_request){.api = LAUNCH_STREAM}, env);
        CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), cases[i].conf);
        CHECK_EQ(has_line(&l, "PyTorch 2.5 takes it for 1"), strcmp(cases[i].value, "yes") == 0);
        launch_done(&l);

        l = prepared(
                (struct launch_request){.api = LAUNCH_SYNC, .frameworks = {.which = PYTORCH}}, env);
        CHECK_STR_EQ(value(&l, "PYTORCH_NO_CUDA_MEMORY_CACHING"), cases[i].sync);
        CHECK_EQ(l.lines.count, strcmp(cases[i].value, "1") != 0);
        launch_done(&l);
    }
}

TEST(r94_a_stated_backend_is_never_overridden)
{
    char *native[] = {(char[]){"PYTORCH_CUDA_ALLOC_CONF=backend:native"},
            (char[]){"XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}, NULL};
    struct launch l = prepared(
            (struct launch_request){.api = LAUNCH_STREAM, .frameworks = {.which = PYTORCH | JAX}},
            native);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "backend:native");
    CHECK_STR_EQ(value(&l, "XLA_PYTHON_CLIENT_ALLOCATOR"), "bfc");
    CHECK(has_line(&l, "backend:native"));
    CHECK(has_line(&l, "XLA_PYTHON_CLIENT_ALLOCATOR=bfc is kept"));
    launch_done(&l);

    l = prepared((struct launch_request){.api = LAUNCH_SYNC}, native);
    CHECK_STR_EQ(value(&l, "PYTORCH_NO_CUDA_MEMORY_CACHING"), "(none)");
    launch_done(&l);

    char *uncached[] = {(char[]){"PYTORCH_NO_CUDA_MEMORY_CACHING=1"}, NULL};
    l = prepared((struct launch_request){.api = LAUNCH_STREAM}, uncached);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "(none)");
    CHECK(has_line(&l, "is set and kept: PyTorch allocates by cudaMalloc"));
    launch_done(&l);

    char *paddle[] = {(char[]){"FLAGS_use_system_allocator=1"}, NULL};
    l = prepared((struct launch_request){.api = LAUNCH_STREAM}, paddle);
    CHECK_STR_EQ(value(&l, "FLAGS_use_cuda_malloc_async_allocator"), "(none)");
    launch_done(&l);
}

TEST(a_key_that_only_contains_the_word_backend_is_no_backend)
{
    char *env[] = {(char[]){"PYTORCH_CUDA_ALLOC_CONF=my_backend:x"}, NULL};
    struct launch l = prepared((struct launch_request){.api = LAUNCH_STREAM}, env);
    CHECK_STR_EQ(value(&l, "PYTORCH_CUDA_ALLOC_CONF"), "my_backend:x,backend:cudaMallocAsync");
    launch_done(&l);
}
