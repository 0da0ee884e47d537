/* SPDX-License-Identifier: MIT */
/* covers: ran.c */
/* What a process says of itself, and what of a receipt is not so any more. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "tracker/stacks/ran.h"

static char anchors[] = "KEDGE_ANCHORS=nvtx", modules[] = "PYTHONPATH=/a";
static char *environment[] = {anchors, modules, NULL};

static struct ran *look(bool is_simulated, int driver)
{
    struct ran_opts opts = {.program = "build-id:12",
            .version = "1.2.3",
            .driver = driver,
            .is_simulated = is_simulated,
            .rank = "2",
            .env = environment};
    struct ran *ran = ran_look(&opts);

    REQUIRE(ran != NULL);
    return ran;
}

/* A receipt of such a run, with more lines behind. */
static struct receipt receipt_of(
        const struct ran *ran, const struct receipt_line *more, size_t count)
{
    static struct receipt_line lines[RAN_FACTS_MAX + 8];
    struct receipt receipt = {.line = lines};

    for (size_t i = 0; i < ran->count; i++)
        lines[receipt.line_count++] = (struct receipt_line){ran->fact[i].key, ran->fact[i].value};
    for (size_t i = 0; i < count; i++)
        lines[receipt.line_count++] = more[i];
    return receipt;
}

static const char *differs(const struct ran *ran, const struct receipt *receipt)
{
    static char why[400];

    return ran_differs(ran, receipt, why, sizeof why) ? why : "same";
}

TEST(a_program_says_what_it_is)
{
    struct ran *ran = look(true, 13000);
    struct receipt receipt = receipt_of(ran, NULL, 0);

    CHECK(receipt_says(&receipt, "device", "simulated"));
    CHECK(receipt_says(&receipt, "driver", "13.0"));
    CHECK(receipt_says(&receipt, "program", "build-id:12"));
    CHECK(receipt_says(&receipt, "variables", "KEDGE_ANCHORS=nvtx")); /* Python's are a script's */
    CHECK(receipt_says(&receipt, "rank", "2"));
    CHECK(receipt_says(&receipt, "arguments", "a_program_says_what_it_is"));
    for (size_t i = 0; i < ran->count; i++)
        if (strcmp(ran->fact[i].key, "command") == 0) /* behind a number: no word of it is masked */
            CHECK_STR_EQ(ran->fact[i].value + 17, "a_program_says_what_it_is");
    CHECK_STR_EQ(differs(ran, &receipt), "same");
    free(ran);
}

TEST(r108_a_receipt_of_the_simulated_device_permits_nothing_on_a_gpu)
{
    struct receipt_line gpu = {"device", "NVIDIA H100 80GB HBM3 GPU-11"};
    struct ran *simulated = look(true, 13000);
    struct ran *real = look(false, 13000);
    struct receipt receipt = receipt_of(simulated, NULL, 0);
    char why[400];

    CHECK_STR_EQ(differs(real, &receipt),
            "it was won on the simulated device, and permits a trap run on a GPU");
    CHECK(ran_other_gpu(&receipt, gpu.value, why, sizeof why));
    CHECK_STR_EQ(why, "this is NVIDIA H100 80GB HBM3 GPU-11, and simulated was verified");
    receipt = receipt_of(real, &gpu, 1);
    CHECK_STR_EQ(differs(real, &receipt), "same");
    CHECK_STR_EQ(differs(simulated, &receipt),
            "this is the simulated device, and NVIDIA H100 80GB HBM3 GPU-11 was verified");
    free(simulated);
    free(real);
}

TEST(r108_a_receipt_is_for_one_kind_of_gpu)
{
    struct receipt_line gpus[] = {
            {"device", "NVIDIA H100 80GB HBM3 GPU-11"}, {"device", "NVIDIA A100 GPU-5"}};
    struct ran *ran = look(false, 13000);
    struct receipt receipt = receipt_of(ran, gpus, 2);
    char why[400];

    CHECK(!ran_other_gpu(&receipt, "NVIDIA H100 80GB HBM3 GPU-11", why, sizeof why));
    CHECK(!ran_other_gpu(&receipt, "NVIDIA H100 80GB HBM3 GPU-12", why, sizeof why));
    CHECK(!ran_other_gpu(&receipt, "NVIDIA A100 GPU-6", why, sizeof why));
    CHECK(ran_other_gpu(&receipt, "NVIDIA A10 GPU-5", why, sizeof why));
    CHECK(ran_other_gpu(&receipt, "NVIDIA A100 40GB GPU-5", why, sizeof why));
    CHECK(ran_other_gpu(&receipt, "NVIDIA H100 GPU-11", why, sizeof why));
    CHECK_STR_EQ(why, "this is NVIDIA H100 GPU-11, and NVIDIA H100 80GB HBM3 GPU-11 was verified");
    free(ran);
}

TEST(what_has_changed_is_told)
{
    struct ran *ran = look(true, 13000);
    struct ran *newer = look(true, 13010);
    struct receipt receipt = receipt_of(ran, NULL, 0);
    struct receipt_line gone = {"file", "00000000000000ff /nowhere/a.py"};
    struct receipt_line version = {"version", "1.0 /nowhere/version.py"};

    CHECK_STR_EQ(differs(newer, &receipt), "the driver is 13.1, and 13.0 was verified");
    receipt = receipt_of(ran, &gone, 1);
    CHECK_STR_EQ(differs(ran, &receipt), "/nowhere/a.py was changed since");
    receipt = receipt_of(ran, &version, 1);
    CHECK_STR_EQ(
            differs(ran, &receipt), "/nowhere/version.py says version none, and 1.0 was verified");
    receipt.line_count = 1;
    CHECK_STR_EQ(
            differs(ran, &receipt), "this is the simulated device, and no device was verified");
    free(ran);
    free(newer);
}

TEST(a_file_is_named_as_the_interpreter_calls_it)
{
    struct ran *ran = look(true, 13000);
    char value[sizeof ran->directory + 40];
    struct receipt_line file = {"file", value};
    struct receipt receipt;

    (void)snprintf(value, sizeof value, "00000000000000ff %s/net/a.py", ran->directory);
    receipt = receipt_of(ran, &file, 1);
    CHECK(ran_names_file(ran, &receipt, "net/a.py"));
    CHECK(ran_names_file(ran, &receipt, strchr(value, ' ') + 1));
    CHECK(!ran_names_file(ran, &receipt, "a.py"));
    CHECK(!ran_names_file(ran, &receipt, "/net/a.py"));
    free(ran);
}
