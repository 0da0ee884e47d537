/* SPDX-License-Identifier: MIT */
#include "tools/run/needs.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tracker/base/script.h"

static const char sharing[] = "CUDA tensors of other processes (torch.multiprocessing)";
static const char settings[] = "settings of PyTorch's own allocator";
static const char history[] = "PyTorch's memory history";
static const char snapshots[] = "snapshots of PyTorch's memory";
static const char graphs[] = "graph trees of torch.compile";

static const struct {
    const char *word, *what;
    bool shares; /* counts in sources that name torch.multiprocessing */
} names[] = {
        {"MemPool", "MemPool", false},
        {"use_mem_pool", "MemPool", false},
        {"CUDAPluggableAllocator", "CUDAPluggableAllocator", false},
        {"change_current_allocator", "CUDAPluggableAllocator", false},
        {"torch_memory_saver", "MemPool by torch_memory_saver", false},
        {"_record_memory_history", history, false},
        {"_dump_snapshot", snapshots, false},
        {"memory._snapshot", snapshots, false},
        {"memory_snapshot", snapshots, false},
        {"_set_allocator_settings", settings, false},
        {"_accelerator_setAllocatorSettings", settings, false},
        {"PYTORCH_CUDA_ALLOC_CONF", settings, false},
        {"PYTORCH_ALLOC_CONF", settings, false},
        {"reduce-overhead", graphs, false},
        {"max-autotune", graphs, false},
        {"_share_cuda_", sharing, false},
        {"rebuild_cuda_tensor", sharing, false},
        {"share_memory_", sharing, true},
        {"share_memory", sharing, true},
        {"Queue", sharing, true},
        {"SimpleQueue", sharing, true},
        {"JoinableQueue", sharing, true},
        {"Pipe", sharing, true},
        {"Pool", sharing, true},
};

static bool needs_is_part(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* What the name at `s` stands for; NULL: it is none of them. `s` begins a word. */
static const char *needs_at(const char *s, bool shares)
{
    for (size_t i = 0; i < CMD_COUNT(names); i++) {
        size_t length = strlen(names[i].word);

        if ((shares || !names[i].shares) && strncmp(s, names[i].word, length) == 0
                && !needs_is_part(s[length]) && s[length] != '-')
            return names[i].what;
    }
    return NULL;
}

static bool is_triple(const char *s)
{
    return (*s == '"' || *s == '\'') && s[1] == *s && s[2] == *s;
}

/* The end of a text of several lines that begins at `s`. */
static const char *needs_behind_text(const char *s)
{
    const char *end = strstr(s + 3, *s == '"' ? "\"\"\"" : "'''");

    return end ? end + 3 : s + strlen(s);
}

static void needs_found(
        struct needs *needs, const char *what, const char *file, const char *text, const char *at)
{
    unsigned line = 1;

    needs->records |= what == history || what == snapshots;
    if (needs->what)
        return;
    for (const char *s = text; s < at; s++)
        line += *s == '\n';
    needs->what = what;
    (void)snprintf(
            needs->place, sizeof needs->place, "%s:%u", file ? script_base(file) : "-c", line);
}

void needs_look(struct needs *io_needs, const char *file, const char *text)
{
    bool shares = strstr(text, "torch.multiprocessing")
            || strstr(text, "from torch import multiprocessing");
    char quote = '\0';

    for (const char *s = text; *s; s++) {
        if (*s == '\n' || *s == quote)
            quote = '\0';
        else if (*s == '\\' && quote)
            s += s[1] != '\0';
        else if (!quote && *s == '#')
            s += strcspn(s, "\n") - 1;
        else if (!quote && is_triple(s))
            s = needs_behind_text(s) - 1;
        else if (!quote && (*s == '"' || *s == '\''))
            quote = *s;
        else if (needs_is_part(*s) && (s == text || !needs_is_part(s[-1]))) {
            const char *what = needs_at(s, shares);

            if (what)
                needs_found(io_needs, what, file, text, s);
        }
    }
}
