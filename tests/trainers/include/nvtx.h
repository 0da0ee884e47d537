/* SPDX-License-Identifier: MIT */
/*
 * nvtx.h - named ranges and marks for profilers, through the public NVTX injection interface.
 *
 * The names, types and layouts are those of NVTX 3, so that a program says nvtxRangePushA here as it would with the
 * toolkit's header and any injection library understands it. On first use the library named by
 * NVTX_INJECTION64_PATH is opened and its InitializeInjectionNvtx2 is given a function that returns the callback
 * tables of the modules CORE and CORE2; the library writes its functions into the slots that it cares for.
 *
 *     nvtxRangePushA ─► slot empty: NVTX_NO_PUSH_POP_TRACKING
 *                    └► slot filled: the library's function
 *
 * Without the variable, or with a library that cannot be opened, every call is a load and a branch. Done once per
 * shared object (the state is weak and hidden), as with the toolkit's header. Any thread.
 *
 * What it does not have: wide strings, resources, categories, thread names (their slots exist and stay empty), and the
 * extensions for memory, payloads and counters.
 */
#ifndef KEDGE_TRAINERS_NVTX_H
#define KEDGE_TRAINERS_NVTX_H

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NVTX_VERSION                  3
#define NVTX_NO_PUSH_POP_TRACKING     ((int)-2)
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;
typedef uint64_t nvtxRangeId_t;

enum {
    NVTX_COLOR_UNKNOWN = 0,
    NVTX_COLOR_ARGB = 1,
    NVTX_MESSAGE_UNKNOWN = 0,
    NVTX_MESSAGE_TYPE_ASCII = 1,
    NVTX_MESSAGE_TYPE_UNICODE = 2,
    NVTX_MESSAGE_TYPE_REGISTERED = 3,
    NVTX_PAYLOAD_UNKNOWN = 0,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
};

typedef union nvtxMessageValue_t {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType;
    int32_t reserved0;
    union {
        uint64_t ullValue;
        int64_t llValue;
        double dValue;
        uint32_t uiValue;
        int32_t iValue;
        float fValue;
    } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

/* ---- what an injection library sees ---- */

typedef void (*NvtxFunctionPointer)(void);
typedef NvtxFunctionPointer **NvtxFunctionTable;

enum {
    NVTX_ETID_CALLBACKS = 1,
    NVTX_ETID_VERSIONINFO = 3,
    NVTX_CB_MODULE_CORE = 1,
    NVTX_CB_MODULE_CORE2 = 5,

    NVTX_CBID_CORE_MarkEx = 1,
    NVTX_CBID_CORE_MarkA = 2,
    NVTX_CBID_CORE_RangeStartEx = 4,
    NVTX_CBID_CORE_RangeStartA = 5,
    NVTX_CBID_CORE_RangeEnd = 7,
    NVTX_CBID_CORE_RangePushEx = 8,
    NVTX_CBID_CORE_RangePushA = 9,
    NVTX_CBID_CORE_RangePop = 11,
    NVTX_CBID_CORE_SIZE = 16,

    NVTX_CBID_CORE2_DomainMarkEx = 1,
    NVTX_CBID_CORE2_DomainRangePushEx = 4,
    NVTX_CBID_CORE2_DomainRangePop = 5,
    NVTX_CBID_CORE2_DomainRegisterStringA = 10,
    NVTX_CBID_CORE2_DomainCreateA = 12,
    NVTX_CBID_CORE2_DomainDestroy = 14,
    NVTX_CBID_CORE2_SIZE = 16,
};

typedef struct NvtxExportTableCallbacks {
    size_t struct_size;
    /* Gives the table of pointers to the slots and the number of entries; 0 for a module that is not there. */
    int (*GetModuleFunctionTable)(int module, NvtxFunctionTable *ret_table, unsigned int *ret_size);
} NvtxExportTableCallbacks;

typedef struct NvtxExportTableVersionInfo {
    size_t struct_size;
    uint32_t version;
    uint32_t reserved0;
    void (*SetInjectionNvtxVersion)(uint32_t version);
} NvtxExportTableVersionInfo;

typedef const void *(*NvtxGetExportTableFunc_t)(uint32_t table);
typedef int (*NvtxInitializeInjectionNvtxFunc_t)(NvtxGetExportTableFunc_t);

/* ---- state, one per shared object ---- */

struct nvtx_state {
    pthread_once_t once;
    /* written by the injection library inside of nvtx_open, read afterwards: */
    NvtxFunctionPointer core[NVTX_CBID_CORE_SIZE];
    NvtxFunctionPointer core2[NVTX_CBID_CORE2_SIZE];
    /* tables of pointers to the slots above; entry 0 stays NULL */
    NvtxFunctionPointer *core_table[NVTX_CBID_CORE_SIZE + 1];
    NvtxFunctionPointer *core2_table[NVTX_CBID_CORE2_SIZE + 1];
};

__attribute__((weak, visibility("hidden"))) struct nvtx_state nvtx_state = {
        .once = PTHREAD_ONCE_INIT};

static inline int nvtx_module_table(
        int module, NvtxFunctionTable *ret_table, unsigned int *ret_size)
{
    if (module != NVTX_CB_MODULE_CORE && module != NVTX_CB_MODULE_CORE2)
        return 0;
    if (ret_table)
        *ret_table = module == NVTX_CB_MODULE_CORE ? nvtx_state.core_table : nvtx_state.core2_table;
    if (ret_size)
        *ret_size = module == NVTX_CB_MODULE_CORE ? NVTX_CBID_CORE_SIZE : NVTX_CBID_CORE2_SIZE;
    return 1;
}

static inline void nvtx_set_injection_version(uint32_t version)
{
    (void)version; /* there is one version of the two modules */
}

static inline const void *nvtx_export_table(uint32_t table)
{
    static const NvtxExportTableCallbacks callbacks = {
            sizeof(NvtxExportTableCallbacks), nvtx_module_table};
    static const NvtxExportTableVersionInfo version = {
            sizeof(NvtxExportTableVersionInfo), NVTX_VERSION, 0, nvtx_set_injection_version};

    if (table == NVTX_ETID_CALLBACKS)
        return &callbacks;
    return table == NVTX_ETID_VERSIONINFO ? &version : NULL;
}

static inline void nvtx_open(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    NvtxInitializeInjectionNvtxFunc_t init = NULL;
    void *library;
    void *symbol;

    for (int i = 1; i < NVTX_CBID_CORE_SIZE; i++)
        nvtx_state.core_table[i] = &nvtx_state.core[i];
    for (int i = 1; i < NVTX_CBID_CORE2_SIZE; i++)
        nvtx_state.core2_table[i] = &nvtx_state.core2[i];
    if (!path || !*path)
        return;
    library = dlopen(path, RTLD_LAZY);
    symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    memcpy(&init, &symbol, sizeof(init));
    if (init && init(nvtx_export_table))
        return; /* stays open for as long as its functions may be called */
    memset(nvtx_state.core, 0, sizeof(nvtx_state.core));
    memset(nvtx_state.core2, 0, sizeof(nvtx_state.core2));
    if (library)
        (void)dlclose(library);
}

static inline NvtxFunctionPointer nvtx_core(int id)
{
    (void)pthread_once(&nvtx_state.once, nvtx_open);
    return nvtx_state.core[id];
}

static inline NvtxFunctionPointer nvtx_core2(int id)
{
    (void)pthread_once(&nvtx_state.once, nvtx_open);
    return nvtx_state.core2[id];
}

/* ---- ranges of the calling thread, marks ---- */

static inline int nvtxRangePushA(const char *message)
{
    int (*f)(const char *) = (int (*)(const char *))nvtx_core(NVTX_CBID_CORE_RangePushA);

    return f ? f(message) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxRangePushEx(const nvtxEventAttributes_t *attributes)
{
    int (*f)(const nvtxEventAttributes_t *) =
            (int (*)(const nvtxEventAttributes_t *))nvtx_core(NVTX_CBID_CORE_RangePushEx);

    return f ? f(attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxRangePop(void)
{
    int (*f)(void) = (int (*)(void))nvtx_core(NVTX_CBID_CORE_RangePop);

    return f ? f() : NVTX_NO_PUSH_POP_TRACKING;
}

static inline void nvtxMarkA(const char *message)
{
    void (*f)(const char *) = (void (*)(const char *))nvtx_core(NVTX_CBID_CORE_MarkA);

    if (f)
        f(message);
}

/* ---- ranges that may end in another thread ---- */

static inline nvtxRangeId_t nvtxRangeStartA(const char *message)
{
    nvtxRangeId_t (*f)(const char *) =
            (nvtxRangeId_t(*)(const char *))nvtx_core(NVTX_CBID_CORE_RangeStartA);

    return f ? f(message) : 0;
}

static inline void nvtxRangeEnd(nvtxRangeId_t range)
{
    void (*f)(nvtxRangeId_t) = (void (*)(nvtxRangeId_t))nvtx_core(NVTX_CBID_CORE_RangeEnd);

    if (f)
        f(range);
}

/* ---- domains ---- */

static inline nvtxDomainHandle_t nvtxDomainCreateA(const char *name)
{
    nvtxDomainHandle_t (*f)(const char *) =
            (nvtxDomainHandle_t(*)(const char *))nvtx_core2(NVTX_CBID_CORE2_DomainCreateA);

    return f ? f(name) : NULL;
}

static inline void nvtxDomainDestroy(nvtxDomainHandle_t domain)
{
    void (*f)(nvtxDomainHandle_t) =
            (void (*)(nvtxDomainHandle_t))nvtx_core2(NVTX_CBID_CORE2_DomainDestroy);

    if (f)
        f(domain);
}

static inline nvtxStringHandle_t nvtxDomainRegisterStringA(
        nvtxDomainHandle_t domain, const char *text)
{
    nvtxStringHandle_t (*f)(nvtxDomainHandle_t, const char *) = (nvtxStringHandle_t(*)(
            nvtxDomainHandle_t, const char *))nvtx_core2(NVTX_CBID_CORE2_DomainRegisterStringA);

    return f ? f(domain, text) : NULL;
}

static inline int nvtxDomainRangePushEx(
        nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    int (*f)(nvtxDomainHandle_t, const nvtxEventAttributes_t *) = (int (*)(nvtxDomainHandle_t,
            const nvtxEventAttributes_t *))nvtx_core2(NVTX_CBID_CORE2_DomainRangePushEx);

    return f ? f(domain, attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline int nvtxDomainRangePop(nvtxDomainHandle_t domain)
{
    int (*f)(nvtxDomainHandle_t) =
            (int (*)(nvtxDomainHandle_t))nvtx_core2(NVTX_CBID_CORE2_DomainRangePop);

    return f ? f(domain) : NVTX_NO_PUSH_POP_TRACKING;
}

static inline void nvtxDomainMarkEx(
        nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    void (*f)(nvtxDomainHandle_t, const nvtxEventAttributes_t *) = (void (*)(nvtxDomainHandle_t,
            const nvtxEventAttributes_t *))nvtx_core2(NVTX_CBID_CORE2_DomainMarkEx);

    if (f)
        f(domain, attributes);
}

#endif
