/* SPDX-License-Identifier: MIT */
/* nvtx.h with and without an injection library (runtime_nvtx_injection.c). */
#include "tests/check.h"

#include <nvtx.h>

/* As in a process that has not used it yet. */
static void forget(void)
{
    static const struct nvtx_state fresh = {.once = PTHREAD_ONCE_INIT};

    nvtx_state = fresh;
}

static const char *injected(void)
{
    void *library = dlopen(INJECTION, RTLD_LAZY | RTLD_NOLOAD);

    REQUIRE(library);
    return dlsym(library, "injected");
}

TEST(without_a_library_nothing_is_tracked)
{
    forget();
    (void)unsetenv("NVTX_INJECTION64_PATH");
    CHECK_EQ(nvtxRangePushA("a"), NVTX_NO_PUSH_POP_TRACKING);
    CHECK_EQ(nvtxRangePop(), NVTX_NO_PUSH_POP_TRACKING);
    CHECK(nvtxDomainCreateA("d") == NULL);
    CHECK_EQ(nvtxRangeStartA("r"), 0);
    nvtxMarkA("m");
    nvtxRangeEnd(0);
    forget();
    (void)setenv("NVTX_INJECTION64_PATH", "/nonexistent.so", 1);
    CHECK_EQ(nvtxRangePushA("a"), NVTX_NO_PUSH_POP_TRACKING);
}

TEST(a_library_receives_ranges_marks_and_domains)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    nvtxDomainHandle_t domain;

    forget();
    (void)setenv("NVTX_INJECTION64_PATH", INJECTION, 1);
    CHECK_EQ(nvtxRangePushA("a"), 0);
    CHECK_EQ(nvtxRangePushA("b"), 1);
    CHECK_EQ(nvtxRangePop(), 1);
    CHECK_EQ(nvtxRangePop(), 0);
    nvtxMarkA("m");
    nvtxRangeEnd(nvtxRangeStartA("r"));
    domain = nvtxDomainCreateA("d");
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "x";
    CHECK_EQ(nvtxDomainRangePushEx(domain, &a), 7);
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = nvtxDomainRegisterStringA(domain, "y");
    CHECK_EQ(nvtxDomainRangePushEx(domain, &a), 7);
    CHECK_EQ(nvtxDomainRangePop(domain), NVTX_NO_PUSH_POP_TRACKING); /* a slot left empty */
    CHECK_STR_EQ(injected(),
            "push:a push:b pop: pop: mark:m start:r end:42 domain:d domain-push:x "
            "string:y domain-push:y ");
}

TEST(a_library_that_refuses_is_not_called_again)
{
    forget();
    (void)setenv("NVTX_INJECTION64_PATH", INJECTION, 1);
    (void)setenv("INJECTION_REFUSES", "1", 1);
    CHECK_EQ(nvtxRangePushA("a"), NVTX_NO_PUSH_POP_TRACKING);
    CHECK_EQ(nvtxRangePop(), NVTX_NO_PUSH_POP_TRACKING);
    (void)unsetenv("INJECTION_REFUSES");
}
