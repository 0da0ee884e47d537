/* SPDX-License-Identifier: MIT */
/* Prints what of NVTX a binary depends on; compiled against our header and the toolkit's, the two must agree. */
#include <nvtx.h>
#include <stddef.h>
#include <stdio.h>

#define NUMBER(x_) printf(#x_ " %ld\n", (long)(x_))

int main(void)
{
    NUMBER(NVTX_VERSION);
    NUMBER(NVTX_NO_PUSH_POP_TRACKING);
    NUMBER(sizeof(nvtxEventAttributes_t));
    NUMBER(offsetof(nvtxEventAttributes_t, category));
    NUMBER(offsetof(nvtxEventAttributes_t, colorType));
    NUMBER(offsetof(nvtxEventAttributes_t, color));
    NUMBER(offsetof(nvtxEventAttributes_t, payloadType));
    NUMBER(offsetof(nvtxEventAttributes_t, payload));
    NUMBER(offsetof(nvtxEventAttributes_t, messageType));
    NUMBER(offsetof(nvtxEventAttributes_t, message));
    NUMBER(NVTX_MESSAGE_TYPE_ASCII);
    NUMBER(NVTX_MESSAGE_TYPE_REGISTERED);
    NUMBER(sizeof(nvtxRangeId_t));
    NUMBER(NVTX_ETID_CALLBACKS);
    NUMBER(NVTX_ETID_VERSIONINFO);
    NUMBER(offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
    NUMBER(sizeof(NvtxExportTableCallbacks));
    NUMBER(offsetof(NvtxExportTableVersionInfo, version));
    NUMBER(sizeof(NvtxExportTableVersionInfo));
    NUMBER(NVTX_CB_MODULE_CORE);
    NUMBER(NVTX_CB_MODULE_CORE2);
    NUMBER(NVTX_CBID_CORE_MarkA);
    NUMBER(NVTX_CBID_CORE_RangeStartA);
    NUMBER(NVTX_CBID_CORE_RangeEnd);
    NUMBER(NVTX_CBID_CORE_RangePushEx);
    NUMBER(NVTX_CBID_CORE_RangePushA);
    NUMBER(NVTX_CBID_CORE_RangePop);
    NUMBER(NVTX_CBID_CORE_SIZE);
    NUMBER(NVTX_CBID_CORE2_DomainMarkEx);
    NUMBER(NVTX_CBID_CORE2_DomainRangePushEx);
    NUMBER(NVTX_CBID_CORE2_DomainRangePop);
    NUMBER(NVTX_CBID_CORE2_DomainRegisterStringA);
    NUMBER(NVTX_CBID_CORE2_DomainCreateA);
    NUMBER(NVTX_CBID_CORE2_DomainDestroy);
    NUMBER(NVTX_CBID_CORE2_SIZE);
    return 0;
}
