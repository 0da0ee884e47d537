/* SPDX-License-Identifier: MIT */
/*
 * devices.h - the devices that an estimate can be made for.
 *
 *     h100-80g                                    a row of devices.def
 *     memory=24G,capability=8.9,sms=128           the same in words, on the command line
 *     FILE                                        or in a file, one to a line, # begins a comment
 *
 * What a process holds beside its allocations: a bare context takes 3.0 to 3.15 MiB for each
 * multiprocessor (RTX 4060 Ti, 34: 107 MiB; RTX PRO 6000, 188: 555 MiB: ggml-org/llama.cpp#23604;
 * RTX 3090, 82: 256 MiB: invoke-ai/InvokeAI#9413; RTX 6000 Ada, 142: 426 MiB:
 * unslothai/unsloth-zoo#1053). Kernels come to it as they are first called: PyTorch's all together
 * are 380 MiB (pytorch/pytorch#86509, 667 against 287). cuBLAS keeps 4 MiB, 32 MiB from capability
 * 9.0 on (cuBLAS, cublasSetWorkspace). So the range is from a bare context to one with all of that.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_DEVICES_H
#define KEDGE_TOOLS_DEVICES_H

#include <stdint.h>
#include <stdio.h>

struct device {
    char name[40];
    uint64_t memory;      /* bytes that the driver tells a program */
    char capability[8];   /* "9.0" */
    uint64_t sms;         /* multiprocessors */
    const char *source;   /* of the memory; NULL: the user states it */
    uint64_t least, most; /* bytes of context, kernels and libraries */
};

/* 0, or an exit code after one line on stderr. `text`: NULL is h100-80g. */
int devices_find(const char *who, const char *text, struct device *ret_device);

/* The rows of the table, for --help. */
void devices_print(FILE *out);

#endif
