/* SPDX-License-Identifier: MIT */
/* covers: script.c */
/* Which word of a command line names what runs. */
#include "tests/check.h"

#include <string.h>

#include "tracker/base/script.h"

/* The kind and the text of a command whose words have blanks between them; a word "_" is empty. */
static const char *tell(const char *command)
{
    static const char *const kinds[] = {"none", "file", "module", "code", "input"};
    static char text[512], answer[600];
    const char *words[64];
    size_t count = 0;
    char *rest = NULL;
    struct script script;

    (void)snprintf(text, sizeof text, "%s", command);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = strcmp(word, "_") == 0 ? "" : word;
    script = script_find(words, count);
    (void)snprintf(answer, sizeof answer, "%s %s", kinds[script.kind], script.text);
    return answer;
}

TEST(a_program_is_itself)
{
    CHECK_STR_EQ(tell(""), "none ");
    CHECK_STR_EQ(tell("./solve train.py"), "none ./solve");
    CHECK_STR_EQ(tell("/opt/pythonic -m x"), "none /opt/pythonic");
}

TEST(pythons_options_are_passed_over)
{
    CHECK_STR_EQ(tell("python train.py -m x"), "file train.py");
    CHECK_STR_EQ(tell("/usr/bin/python3.11 -u -W ignore train.py"), "file train.py");
    CHECK_STR_EQ(tell("python3 -uW error -X dev -OO -I -bb a/train.py --lr 1"), "file a/train.py");
    CHECK_STR_EQ(tell("python -Wignore -Xfrozen_modules=off train.py"), "file train.py");
    CHECK_STR_EQ(tell("python --check-hash-based-pycs never train.py"), "file train.py");
    CHECK_STR_EQ(tell("python -- -train.py"), "file -train.py");
    CHECK_STR_EQ(tell("pypy3 train.py"), "file train.py");
    CHECK_STR_EQ(tell("python3.13t train.py"), "file train.py");
    CHECK_STR_EQ(tell("python3-dbg pkg/"), "file pkg/");
    CHECK_STR_EQ(tell("python -X faulthandler -m train"), "module train");
    CHECK_STR_EQ(tell("python -W error -mpkg.train --epochs 3"), "module pkg.train");
    CHECK_STR_EQ(tell("python -um pkg train.py"), "module pkg");
    CHECK_STR_EQ(tell("python -c pass train.py"), "code pass");
    CHECK_STR_EQ(tell("python -Bcpass"), "code pass");
    CHECK_STR_EQ(tell("python"), "input python");
    CHECK_STR_EQ(tell("python -u -"), "input python");
    CHECK_STR_EQ(tell("python -W"), "input python");
}

TEST(launchers_lead_to_what_they_launch)
{
    CHECK_STR_EQ(tell("torchrun --nproc_per_node 2 train.py --lr 1"), "file train.py");
    CHECK_STR_EQ(tell("torchrun --nproc-per-node=2 --standalone train"), "file train");
    CHECK_STR_EQ(tell("torchrun --nnodes 1 -m pkg.train a.py"), "module pkg.train");
    CHECK_STR_EQ(tell("torchrun -m --nnodes 1 pkg.train"), "module pkg.train");
    CHECK_STR_EQ(tell("python -u /usr/bin/torchrun --nproc_per_node 2 train.py"), "file train.py");
    CHECK_STR_EQ(tell("python -m torch.distributed.run --nproc_per_node 2 train.py x.py"),
            "file train.py");
    CHECK_STR_EQ(tell("python -W ignore -m torch.distributed.launch --use_env train.py"),
            "file train.py");
    CHECK_STR_EQ(tell("accelerate launch --config_file a.yaml --num_processes 2 train.py"),
            "file train.py");
    CHECK_STR_EQ(tell("python /venv/bin/accelerate launch --cpu train.py"), "file train.py");
    CHECK_STR_EQ(tell("accelerate-launch -m pkg.train"), "module pkg.train");
    CHECK_STR_EQ(
            tell("python -m accelerate.commands.launch --multi_gpu train.py"), "file train.py");
    CHECK_STR_EQ(tell("deepspeed --num_gpus 2 train.py --deepspeed"), "file train.py");
    CHECK_STR_EQ(tell("python -m cProfile -o out.prof -s time train.py"), "file train.py");
    CHECK_STR_EQ(tell("python -m coverage run -m pkg.train"), "module pkg.train");
    CHECK_STR_EQ(tell("python -m pdb -c continue train.py"), "file train.py");
    CHECK_STR_EQ(tell("torchrun"), "none torchrun");
    CHECK_STR_EQ(tell("python -m torch.distributed.run"), "module torch.distributed.run");
    CHECK_STR_EQ(tell("python torchrun.py a.py"), "file torchrun.py");
}

TEST(what_starts_programs_is_passed_over)
{
    CHECK_STR_EQ(tell("env A=1 B=2 python train.py"), "file train.py");
    CHECK_STR_EQ(tell("/usr/bin/env -u A -i python3 -u train.py"), "file train.py");
    CHECK_STR_EQ(tell("env A=1 timeout -s KILL 10 nice -n 5 python -m pkg"), "module pkg");
    CHECK_STR_EQ(tell("timeout 10 ./solve a"), "none ./solve");
    CHECK_STR_EQ(tell("numactl -N 0 taskset 3 stdbuf -o L nohup python train.py"), "file train.py");
    CHECK_STR_EQ(tell("env"), "none env");
    CHECK_STR_EQ(tell("timeout 10"), "none timeout");
}

TEST(other_interpreters_have_scripts_too)
{
    CHECK_STR_EQ(tell("bash -e run.sh a"), "file run.sh");
    CHECK_STR_EQ(tell("sh -c true"), "code true");
    CHECK_STR_EQ(tell("julia --project=. -t 4 train.jl"), "file train.jl");
    CHECK_STR_EQ(tell("julia -e 1+1"), "code 1+1");
    CHECK_STR_EQ(tell("node train.js"), "file train.js");
    CHECK_STR_EQ(tell("bash"), "input bash");
}

TEST(the_program_is_the_word_behind_what_starts_it)
{
    const char *words[] = {"env", "A=1", "python", "-u", "train.py"};
    struct script script = script_find(words, 5);

    CHECK_EQ(script.program, 2);
    CHECK_EQ(script.word, 4);
    CHECK_STR_EQ(script_base("/a/b.py"), "b.py");
    CHECK_STR_EQ(script_base("b.py"), "b.py");
}
