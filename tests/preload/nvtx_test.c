/* SPDX-License-Identifier: MIT */
/* covers: export_nvtx.c */
/*
 * NVTX, seen from the library that emits ranges: finds the injection by the environment, offers its table of callbacks, and
 * calls what was put there. Two tables stand for two libraries of one program.
 */
#include "tests/live_at.h"
#include "tests/preload/client.h"

#include "tracker/reader/read.h"

#include <dlfcn.h>
#include <unistd.h>
#include <wchar.h>

typedef void (*function)(void);

struct library {
    function core[16];
    function core2[16];
    function *core_slots[16];
    function *core2_slots[16];
};

static struct library libraries[2];
static struct library *initialising;

struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***ret_table, unsigned *ret_size);
};

static int module_table(int module, function ***ret_table, unsigned *ret_size)
{
    if (module != 1 && module != 5)
        return 0;
    *ret_table = module == 1 ? initialising->core_slots : initialising->core2_slots;
    *ret_size = 16;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct callbacks callbacks = {sizeof callbacks, module_table};

    return id == 1 ? &callbacks : NULL;
}

static void initialise(struct library *library)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*init)(const void *(*)(uint32_t));
    void *handle;

    REQUIRE(path);
    handle = dlopen(path, RTLD_LAZY);
    REQUIRE(handle);
    init = (int (*)(const void *(*)(uint32_t)))dlsym(handle, "InitializeInjectionNvtx2");
    REQUIRE(init);
    for (int i = 0; i < 16; i++) {
        library->core_slots[i] = &library->core[i];
        library->core2_slots[i] = &library->core2[i];
    }
    initialising = library;
    REQUIRE_EQ(init(export_table), 1);
}

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

static struct attributes message(int type, const void *text)
{
    struct attributes attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.version = 3;
    attributes.size = sizeof attributes;
    attributes.message_type = type;
    attributes.message = text;
    return attributes;
}

/* Callback ids of NVTX. */
#define MARK_A(l, name)  ((void (*)(const char *))(l)->core[2])(name)
#define START_A(l, name) ((uint64_t(*)(const char *))(l)->core[5])(name)
#define END(l, id)       ((void (*)(uint64_t))(l)->core[7])(id)
#define PUSH_EX(l, a)    ((int (*)(const struct attributes *))(l)->core[8])(a)
#define PUSH_A(l, name)  ((int (*)(const char *))(l)->core[9])(name)
#define PUSH_W(l, name)  ((int (*)(const wchar_t *))(l)->core[10])(name)
#define POP(l)           ((int (*)(void))(l)->core[11])()
#define DOMAIN_PUSH_EX(l, d, a) \
    ((int (*)(const void *, const struct attributes *))(l)->core2[4])(d, a)
#define DOMAIN_POP(l, d)  ((int (*)(const void *))(l)->core2[5])(d)
#define STRING_A(l, d, s) ((const void *(*)(const void *, const char *))(l)->core2[10])(d, s)
#define DOMAIN_A(l, name) ((const void *(*)(const char *))(l)->core2[12])(name)

static char capture_file[256];

static void begin(void)
{
    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-test-nvtx-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    initialise(&libraries[0]);
    initialise(&libraries[1]);
    client_init();
}

/* The anchor path of an allocation made now. */
static const char *path_here(void)
{
    static char path[256];
    struct read_capture *capture;
    const struct read_live *live;
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    REQUIRE(read_open_parts(capture_file, READ_ALL, &capture, NULL) == 0);
    live = live_at(capture, ptr);
    REQUIRE(live);
    snprintf(path, sizeof path, "%s", live->path);
    read_close(capture);
    return path;
}

TEST(ranges_of_several_libraries_are_anchors)
{
    struct library *a = &libraries[0], *b = &libraries[1];
    struct attributes attributes;
    const void *domain, *string;
    uint64_t id;

    begin();
    CHECK_STR_EQ(path_here(), "");
    CHECK_EQ(PUSH_A(a, "step"), -2); /* what a program sees without a tool */
    attributes = message(1, "forward");
    CHECK_EQ(PUSH_EX(b, &attributes), -2);
    CHECK_STR_EQ(path_here(), "step/forward");
    domain = DOMAIN_A(b, "NCCL");
    string = STRING_A(b, domain, "AllReduce");
    attributes = message(3, string);
    (void)DOMAIN_PUSH_EX(b, domain, &attributes);
    CHECK_STR_EQ(path_here(), "step/forward/NCCL:AllReduce");
    (void)DOMAIN_POP(b, domain);
    (void)POP(b);
    CHECK_STR_EQ(path_here(), "step");
    (void)POP(a);
    CHECK_STR_EQ(path_here(), "");
    id = START_A(a, "epoch");
    CHECK_NE(id, 0);
    CHECK_STR_EQ(path_here(), "epoch");
    END(a, id);
    CHECK_STR_EQ(path_here(), "");
    MARK_A(a, "moment");
    (void)unlink(capture_file);
}

/* Wide, empty, missing and short messages: still ranges that open and close. */
TEST(odd_messages_do_no_harm)
{
    struct library *a = &libraries[0];
    struct attributes attributes;

    begin();
    (void)PUSH_W(a, L"gr\u00fc\u00df \u20ac \U0001F600");
    CHECK_STR_EQ(path_here(), "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
    (void)POP(a);
    attributes = message(2, L"wide");
    (void)PUSH_EX(a, &attributes);
    CHECK_STR_EQ(path_here(), "wide");
    (void)POP(a);
    attributes = message(0, NULL);
    (void)PUSH_EX(a, &attributes);
    CHECK_STR_EQ(path_here(), "(unnamed)");
    attributes.size = 8; /* a structure that is too short to hold a message */
    (void)PUSH_EX(a, &attributes);
    (void)PUSH_EX(a, NULL);
    (void)PUSH_A(a, NULL);
    for (int i = 0; i < 4; i++)
        (void)POP(a);
    (void)POP(a); /* one too many */
    END(a, 4711);
    CHECK_STR_EQ(path_here(), "");
    (void)unlink(capture_file);
}

/* Names are copied: the library may be unloaded. */
TEST(names_may_go_away)
{
    char name[16] = "first";
    struct library *a = &libraries[0];

    begin();
    (void)PUSH_A(a, name);
    strcpy(name, "xxxxx");
    CHECK_STR_EQ(path_here(), "first");
    (void)unlink(capture_file);
}
