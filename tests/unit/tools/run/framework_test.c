/* SPDX-License-Identifier: MIT */
/* covers: framework.c needs.c */
/* Environments and scripts made of empty files, and what is found in them. */
#include "tests/check.h"

#include "tools/run/framework.h"

#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void put(const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
            slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    REQUIRE(file);
    (void)fputs(text, file);
    (void)fclose(file);
    (void)chmod(path, 0755);
}

#define SITE "env/lib/python3.11/site-packages/"

/* An environment with PyTorch and Lightning, as pip leaves them. */
static void make_environment(void)
{
    snprintf(root, sizeof root, "/tmp/kedge-framework-XXXXXX");
    REQUIRE(mkdtemp(root));
    put("env/bin/python", "");
    put("env/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    put(SITE "torch/__init__.py", "");
    put(SITE "torch-2.15.0.dist-info/METADATA", "Name: torch\n");
    put(SITE "lightning/__init__.py", "");
    put(SITE "lightning-2.5.dist-info/METADATA",
            "Name: lightning\nRequires-Dist: fsspec\nRequires-Dist: torch<4.0,>=2.1.0\n");
    put(SITE "hub_client-1.dist-info/METADATA",
            "Requires-Dist: torch ; extra == 'torch'\nRequires-Dist: tensorflow; extra == 'tf'\n");
    put(SITE "jax/__init__.py", "");
    put(SITE "paddle/__init__.py", "");
    put(SITE "geometry-1.dist-info/METADATA", "Requires-Dist: torch-geometric>=2\n");
    put(SITE "numpy-2.dist-info/METADATA", "Name: numpy\n");
}

static void remove_environment(void)
{
    char line[128];

    snprintf(line, sizeof line, "rm -rf %s", root);
    CHECK_EQ(system(line), 0);
}

/* Words of `line`, '@' stands for the folder of the test. */
static struct framework_found found(const char *line)
{
    static char words[1024], path[256];
    char *command[16] = {NULL};
    size_t count = 0, used = 0;

    for (const char *s = line; *s && used < sizeof words - 128; s++)
        used += (size_t)snprintf(
                words + used, 128, *s == '@' ? "%s" : "%.1s", *s == '@' ? root : s);
    words[used] = '\0';
    char *rest = NULL;
    for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
        command[count++] = word;
    snprintf(path, sizeof path, "%s/env/bin:/nowhere", root);
    return framework_find(command, path, NULL, root, NULL);
}

enum {
    PYTORCH = 1 << FRAMEWORK_PYTORCH,
    TENSORFLOW = 1 << FRAMEWORK_TENSORFLOW,
    JAX = 1 << FRAMEWORK_JAX,
    PADDLE = 1 << FRAMEWORK_PADDLE,
};

TEST(a_script_says_by_its_imports_what_it_uses)
{
    static const struct {
        const char *text;
        unsigned which;
    } cases[] = {
            {"import torch\n", PYTORCH},
            {"import os, torch.nn as nn\n", PYTORCH},
            {"def f():\n    from torch import nn\n", PYTORCH},
            {"import os as o, jax\n", JAX},
            {"import sys; import paddle\n", PADDLE},
            {"import torch\nimport jax\n", PYTORCH | JAX},
            {"import lightning as L\n", PYTORCH}, /* says that it wants it, and it is there */
            {"import hub_client\n", PYTORCH},     /* TensorFlow is not there */
            {"try:\n    import tensorflow\nexcept ImportError:\n    import torch\n", PYTORCH},
            {"import geometry, numpy\n", 0},
            {"import torchvision_like\n", 0},
            {"# import torch\nx = 'import torch'\nimportant = 1\nfrom_torch = 2\n", 0},
            {"import os\nfrom . import nothing\nfrom\nimport\n", 0},
            {"", 0},
    };

    make_environment();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("train.py", cases[i].text);
        CHECK_EQ(found("python|-u|train.py|--lr|3").which, cases[i].which);
    }
    CHECK_EQ(found("python|nowhere.py").which, 0);
    CHECK_EQ(found("python").which, 0);
    CHECK_EQ(found("python|-").which, 0);
    remove_environment();
}

TEST(what_pytorchs_own_allocator_has_alone_is_found_in_the_sources)
{
    static const struct {
        const char *text, *what, *place;
    } cases[] = {
            {"import torch\npool = torch.cuda.MemPool()\n", "MemPool", "train.py:2"},
            {"import torch\nfrom torch_memory_saver import torch_memory_saver\n",
                    "MemPool by torch_memory_saver", "train.py:2"},
            {"import torch\ntorch.cuda.memory._record_memory_history()\n",
                    "PyTorch's memory history", "train.py:2"},
            {"import os, torch\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'a:1'\n",
                    "settings of PyTorch's own allocator", "train.py:2"},
            {"import torch\nf = torch.compile(f, mode=\"reduce-overhead\")\n",
                    "graph trees of torch.compile", "train.py:2"},
            {"import torch.multiprocessing as mp\n\n\nq = mp.Queue()\n",
                    "CUDA tensors of other processes (torch.multiprocessing)", "train.py:4"},
            /* a word inside another, comments, texts of several lines, another module's queue */
            {"import torch\nMyMemPool = MemPools = 1\n", NULL, ""},
            {"import torch\nx = 1 # MemPool\n", NULL, ""},
            {"import torch\n'''\nMemPool\n'''\n", NULL, ""},
            {"import torch\nx = '#'; MemPool\n", "MemPool", "train.py:2"},
            {"import torch, queue\nq = queue.Queue()\n", NULL, ""},
            {"import torch\nmode = 'max-autotune-no-cudagraphs'\n", NULL, ""},
            {"import torch\nself._snapshot()\n", NULL, ""},
            {"import torch\n\"\"\" no end", NULL, ""},
            {"import torch\nx = 'no end \\", NULL, ""},
            /* no PyTorch */
            {"MemPool\n", NULL, ""},
    };

    make_environment();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("train.py", cases[i].text);
        struct needs own = found("python|train.py").own;
        CHECK_STR_EQ(own.what ? own.what : "", cases[i].what ? cases[i].what : "");
        CHECK_STR_EQ(own.place, cases[i].place);
    }
    put("train.py", "import torch, pools\n");
    put("pools.py", "\nfrom torch.cuda import MemPool\n");
    CHECK_STR_EQ(found("python|train.py").own.place, "pools.py:2");
    CHECK(!found("python|train.py").own.records);
    CHECK_STR_EQ(found("python|-c|import torch; torch.cuda.MemPool()").own.place, "-c:1");
    CHECK(found("python|-c|import torch; MemPool; memory._snapshot()").own.records);
    remove_environment();
}

TEST(modules_of_the_programs_own_are_looked_through)
{
    make_environment();
    put("a/train.py", "import model\n");
    put("a/model.py", "from pack.layers import (Layer,\n    Other)\n");
    put("a/pack/__init__.py", "");
    put("a/pack/layers.py", "from .deep import thing\nfrom ..x import y\n");
    put("a/pack/deep/__init__.py", "from . import thing\nimport train\n");
    put("a/pack/deep/thing.py", "import torch\n");
    CHECK_EQ(found("python|a/train.py").which, PYTORCH);
    put("a/pack/deep/thing.py", "import numpy\n");
    CHECK_EQ(found("python|a/train.py").which, 0);
    put("b/__main__.py", "import torch\n");
    CHECK_EQ(found("python|b").which, PYTORCH);
    CHECK_EQ(found("python|-m|b").which, PYTORCH);
    CHECK_EQ(found("python|-m|a.train").which, 0);
    remove_environment();
}

TEST(each_way_to_start_an_interpreter_is_known)
{
    make_environment();
    put("train.py", "import torch\n");
    put("none.py", "import numpy\n");
    put("env/bin/torchrun", "#!/usr/bin/env python\nfrom torch.distributed.run import main\n");
    put("env/bin/tool", "#!/usr/bin/env python\nimport sys\nfrom lightning.cli import main\n");
    put("env/bin/other", "#!/bin/sh\nexec python train.py\n");
    put("script", "#!/usr/bin/env python\nimport torch\n");
    CHECK_EQ(found("@/env/bin/python|train.py").which, PYTORCH);
    CHECK_EQ(found("mpirun|-np|2|python|train.py").which, PYTORCH);
    CHECK_EQ(found("mpirun|-np|2|python|none.py").which, 0);
    CHECK_EQ(found("env|A=b|python|-X|dev|-W|ignore|train.py").which, PYTORCH);
    CHECK_EQ(found("python|-m|torch.distributed.run|none.py").which, PYTORCH);
    CHECK_EQ(found("python|-um|lightning.cli").which, PYTORCH);
    CHECK_EQ(found("python|-mlightning.cli").which, PYTORCH);
    CHECK_EQ(found("python|-cimport torch").which, PYTORCH);
    CHECK_EQ(found("python|-uW|error|train.py").which, PYTORCH);
    CHECK_EQ(found("python|--check-hash-based-pycs|never|train.py").which, PYTORCH);
    CHECK_EQ(found("python|--|train.py").which, PYTORCH);
    CHECK_EQ(found("python|-m|cProfile|-o|none.py.out|train.py").which, PYTORCH);
    CHECK_EQ(found("python|-m|accelerate.commands.launch|train.py").which, PYTORCH);
    CHECK_EQ(found("python|env/bin/torchrun|none.py").which, PYTORCH);
    CHECK_EQ(found("python|-c|import sys; import torch").which, PYTORCH);
    CHECK_EQ(found("python|-Bc|print(1)").which, 0);
    CHECK_EQ(found("tool|fit").which, PYTORCH);
    CHECK_EQ(found("srun|tool|fit").which, PYTORCH);
    CHECK_EQ(found("./script").which, PYTORCH);
    CHECK_EQ(found("other").which, 0); /* a shell's business is not known */
    CHECK_EQ(found("env/bin/python2.7x|train.py").which, 0);
    CHECK_EQ(found("sh|-c|python train.py").which, 0);
    remove_environment();
}

TEST(an_import_counts_where_the_framework_is_installed)
{
    make_environment();
    put("train.py", "import tensorflow\n");
    CHECK_EQ(found("python|train.py").which, 0);
    put("tensorflow/__init__.py", ""); /* beside the script */
    CHECK_EQ(found("python|train.py").which, TENSORFLOW);
    put("apart/train.py", "import tensorflow\n");
    CHECK_EQ(found("python|apart/train.py").which, 0);
    put(SITE "tensorflow_cpu-2.dist-info/METADATA", ""); /* an editable one has no folder */
    CHECK_EQ(found("python|apart/train.py").which, TENSORFLOW);
    put("bare/bin/python3.11", ""); /* nobody knows where its packages are */
    put("apart/train.py", "import torch, jax\n");
    CHECK_EQ(found("bare/bin/python3.11|apart/train.py").which, PYTORCH | JAX);
    remove_environment();
}

TEST(what_an_environment_stands_on_counts_if_it_says_so)
{
    make_environment();
    put("base/bin/python3.11", "");
    put("base/lib/python3.11/site-packages/tensorflow/__init__.py", "");
    put("base/lib/python3.12/site-packages/torch/__init__.py", ""); /* another version's */
    put(SITE "helper-1.dist-info/METADATA", "Requires-Dist: tensorflow\n");
    put("train.py", "import helper\n");
    CHECK_EQ(found("python|train.py").which, 0);
    put("env/pyvenv.cfg", "include-system-site-packages = true\n");
    char from[128], to[128];
    snprintf(from, sizeof from, "%s/env/bin/python", root);
    snprintf(to, sizeof to, "%s/base/bin/python3.11", root);
    REQUIRE_EQ(unlink(from), 0);
    REQUIRE_EQ(symlink(to, from), 0);
    CHECK_EQ(found("python|train.py").which, TENSORFLOW);
    put("base/lib/python3.11/site-packages/lightning-3.dist-info/METADATA",
            "Requires-Dist: torch\n");
    put("train.py", "import lightning\n");
    CHECK_EQ(found("base/bin/python3.11|train.py").which, 0);
    remove_environment();
}

/* One environment above another, and an editable installation. */
TEST(folders_that_a_pth_file_names_are_searched)
{
    make_environment();
    put("below/tensorflow/__init__.py", "");
    put("train.py", "import tensorflow\n");
    CHECK_EQ(found("python|train.py").which, 0);
    put(SITE "z_comments.pth", "# ../../../../below\nimport sys; sys.path\n/nowhere\n\n");
    CHECK_EQ(found("python|train.py").which, 0);
    put(SITE "below.pth", "# environments\r\n../../../../below\r\n");
    CHECK_EQ(found("python|train.py").which, TENSORFLOW);
    remove_environment();
}

TEST(the_version_of_paddle_is_that_of_what_is_installed)
{
    make_environment();
    put("train.py", "import paddle\n");
    CHECK_EQ(found("python|train.py").paddle_major, 0);
    put(SITE "paddlepaddle_gpu-2.6.2.dist-info/METADATA", "");
    CHECK_EQ(found("python|train.py").paddle_major, 2);
    put("other.py", "import torch\n");
    CHECK_EQ(found("python|other.py").paddle_major, 0);
    remove_environment();
}
