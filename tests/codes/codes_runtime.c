/* SPDX-License-Identifier: MIT */
void runtime_program(unsigned steps);
void runtime_program(unsigned steps)
{
    (void)steps;
}
