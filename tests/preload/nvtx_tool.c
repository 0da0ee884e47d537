/* SPDX-License-Identifier: MIT */
/*
 * Another tool with NVTX, and a library that emits ranges; built twice, once as each (EMITS).
 *
 * The tool gives out handles and ids of its own and writes down what it is told, with the names as they reached it. By NVTX_TOOL_IS
 * it declines, or knows neither domains nor strings ("plain").
 */
#include "tests/trainers/include/nvtx.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef EMITS

void emit(const char *name);

void emit(const char *name)
{
    (void)nvtxRangePushA(name);
    (void)nvtxRangePop();
}

#else

extern char tool_seen[4096];
char tool_seen[4096];
static int level;
static uint64_t last_id = 1000;

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

/* What a handle of ours looks like: no pointer to text, so that nobody can take it for one. */
static char kept[16][32];
static int kept_count;

static void *keep(const char *text)
{
    (void)snprintf(kept[kept_count], sizeof kept[0], "%s", text);
    return (void *)(uintptr_t)(0x1000 + 16 * kept_count++);
}

static const char *of(const void *handle)
{
    return handle ? kept[((uintptr_t)handle - 0x1000) / 16] : "-";
}

static void see(const char *what, const char *name)
{
    size_t used = strlen(tool_seen);

    (void)snprintf(
            tool_seen + used, sizeof tool_seen - used, "%s%s %s", used ? ", " : "", what, name);
}

static const char *message(const nvtxEventAttributes_t *what)
{
    if (what->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        return of(what->message.registered);
    return what->message.ascii;
}

static void mark_a(const char *name)
{
    see("mark", name);
}

static int push_a(const char *name)
{
    see("push", name);
    return level++;
}

static int pop(void)
{
    see("pop", "-");
    return --level;
}

static uint64_t start_a(const char *name)
{
    see("start", name);
    return ++last_id;
}

static void end(uint64_t id)
{
    see("end", id == last_id ? "the last" : id ? "another" : "nothing");
}

static void name_category(uint32_t number, const char *name)
{
    see(number == 7 ? "category" : "which category", name);
}

static void *domain_create(const char *name)
{
    see("domain", name);
    return keep(name);
}

static void *domain_string(const void *domain, const char *text)
{
    see(of(domain), text);
    return keep(text);
}

static int domain_push(const void *domain, const nvtxEventAttributes_t *what)
{
    see(of(domain), message(what));
    return 70;
}

static int domain_pop(const void *domain)
{
    see("pop of", of(domain));
    return 69;
}

static void domain_destroy(const void *domain)
{
    see("no more", of(domain));
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    const char *is = getenv("NVTX_TOOL_IS");
    NvtxFunctionTable core, core2;
    unsigned size;

    if (is && strcmp(is, "declining") == 0)
        return 0;
    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) || size < 13
            || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size) || size < 15)
        return 0;
    *core[NVTX_CBID_CORE_MarkA] = (NvtxFunctionPointer)mark_a;
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push_a;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    *core[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start_a;
    *core[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
    *core[12] = (NvtxFunctionPointer)name_category;
    if (is)
        return 1;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *core2[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)domain_string;
    *core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)domain_push;
    *core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)domain_pop;
    *core2[NVTX_CBID_CORE2_DomainDestroy] = (NvtxFunctionPointer)domain_destroy;
    return 1;
}

#endif
