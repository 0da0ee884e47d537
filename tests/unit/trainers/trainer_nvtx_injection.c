/* SPDX-License-Identifier: MIT */
/* An injection library for the test of nvtx.h: it writes down what it is told. */
#include <nvtx.h>
#include <stdio.h>

__attribute__((visibility("default"))) char injected[4096];
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

static int depth;

static void note(const char *what, const char *name)
{
    size_t used = strlen(injected);

    (void)snprintf(injected + used, sizeof(injected) - used, "%s:%s ", what, name);
}

static int push(const char *name)
{
    note("push", name);
    return depth++;
}

static int pop(void)
{
    note("pop", "");
    return --depth;
}

static void mark(const char *name)
{
    note("mark", name);
}

static nvtxRangeId_t start(const char *name)
{
    note("start", name);
    return 42;
}

static void end(nvtxRangeId_t id)
{
    note("end", id == 42 ? "42" : "?");
}

static nvtxDomainHandle_t create(const char *name)
{
    note("domain", name);
    return (nvtxDomainHandle_t)(void *)injected;
}

static nvtxStringHandle_t string(nvtxDomainHandle_t domain, const char *text)
{
    static char kept[64];

    note(domain == (nvtxDomainHandle_t)(void *)injected ? "string" : "foreign", text);
    (void)snprintf(kept, sizeof(kept), "%s", text);
    return (nvtxStringHandle_t)(void *)kept;
}

static int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
    (void)domain;
    note("domain-push",
            a->messageType == NVTX_MESSAGE_TYPE_REGISTERED ? (const char *)a->message.registered
                                                           : a->message.ascii);
    return 7;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    const NvtxExportTableVersionInfo *version = get(NVTX_ETID_VERSIONINFO);
    NvtxFunctionTable table;
    unsigned int size;

    if (getenv("INJECTION_REFUSES"))
        return 0;
    if (!callbacks || !version || version->version != NVTX_VERSION || get(2)
            || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)
            || size != NVTX_CBID_CORE_SIZE || table[0] || table[size])
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    *table[NVTX_CBID_CORE_MarkA] = (NvtxFunctionPointer)mark;
    *table[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start;
    *table[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)
            || callbacks->GetModuleFunctionTable(2, NULL, NULL))
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)string;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)domain_push;
    return 1;
}
