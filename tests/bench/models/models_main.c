/* SPDX-License-Identifier: MIT */
/* `kedge` whose whatif plays all models. */
#include "tests/bench/models/models.h"

#include "tools/commands/cmd.h"

int main(int argc, char **argv)
{
    models_add();
    return cmd_main(argc, argv);
}
