/* SPDX-License-Identifier: MIT */
/*
 * Two libraries of the same length whose only function keeps a frame of another size (STALE_FRAME): what an unwinder
 * remembers of the one, by address, is wrong for the other. In assembly, so that addresses are equal whatever compiles it.
 */
#if defined(__x86_64__)
#    define TEXT(x_)  #    x_
#    define VALUE(x_) TEXT(x_)

/* void stale_ask(void (*ask)(void *), void *argument): fills its frame with ones, and calls. */
/* clang-format off */
__asm__(".set frame, " VALUE(STALE_FRAME) "\n"
        ".text\n"
        ".balign 4096\n"
        ".globl stale_ask\n"
        ".type stale_ask, @function\n"
        "stale_ask:\n"
        "    .cfi_startproc\n"
        "    subq $frame, %rsp\n"
        "    .cfi_adjust_cfa_offset frame\n"
        "    movq %rdi, %r10\n"
        "    movq %rsi, %r11\n"
        "    movq %rsp, %rdi\n"
        "    movl $frame, %ecx\n"
        "    movl $1, %eax\n"
        "    rep stosb\n"
        "    movq %r11, %rdi\n"
        "    call *%r10\n"
        "    addq $frame, %rsp\n"
        "    .cfi_adjust_cfa_offset -frame\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size stale_ask, .-stale_ask\n");
/* clang-format on */
#endif
