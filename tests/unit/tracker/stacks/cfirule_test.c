/* SPDX-License-Identifier: MIT */
/* covers: cfirule.c */
/* Rules of frames, one small function for each: what its directives say, where the rule changes, and what is no rule that is followed. */
#include "tests/check.h"

#include "tracker/stacks/cfirule.h"

#if defined(__x86_64__)

/* A function that is never called: directives, and instructions of one byte. Its rule is asked for behind the byte `at`. */
#    define CODE(name, body)                                                                     \
        extern const char name[];                                                                \
        __asm__(".pushsection .text\n.type " #name ", @function\n" #name                         \
                ":\n.cfi_startproc\n" body "nop\nnop\n.cfi_endproc\n.size " #name ", . - " #name \
                "\n.popsection\n")

#    define WORD_BY_BP ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06\n" /* CFA = *(rbp - 8) */
#    define BP_BY_BP   ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x10\n" /* rbp at rbp + 16 */

CODE(usual, "");
CODE(pushed, "nop\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n");
CODE(framed, ".cfi_def_cfa 6, 16\n.cfi_offset 6, -16\n");
CODE(other_base, ".cfi_def_cfa 10, 8\n");
CODE(too_near, ".cfi_def_cfa_offset 7\n");
CODE(beyond_31_bits, ".cfi_escape 0x0e, 0x80, 0x80, 0x80, 0x80, 0x08\n");
CODE(largest, ".cfi_escape 0x0e, 0xff, 0xff, 0xff, 0xff, 0x07\n");
CODE(far_bp, ".cfi_offset 6, -32768\n");
CODE(too_far_bp, ".cfi_offset 6, -32776\n");
CODE(aligned, WORD_BY_BP BP_BY_BP);
CODE(word_alone, WORD_BY_BP);
CODE(bp_alone, BP_BY_BP);
CODE(word_too_far, BP_BY_BP ".cfi_escape 0x0f, 0x05, 0x76, 0xff, 0xff, 0x7d, 0x06\n");
CODE(word_of_sp, BP_BY_BP ".cfi_escape 0x0f, 0x03, 0x77, 0x78, 0x06\n");
CODE(no_word, BP_BY_BP ".cfi_escape 0x0f, 0x02, 0x76, 0x78\n");
CODE(word_of_word, BP_BY_BP ".cfi_escape 0x0f, 0x04, 0x76, 0x78, 0x06, 0x06\n");
CODE(empty_word, BP_BY_BP ".cfi_escape 0x0f, 0x00\n");
CODE(bp_by_sp, ".cfi_escape 0x10, 0x06, 0x02, 0x77, 0x00\n");
CODE(bp_is_value, ".cfi_escape 0x16, 0x06, 0x02, 0x76, 0x00\n");
CODE(bp_in_register, ".cfi_register 6, 3\n");
CODE(bp_is_offset, ".cfi_escape 0x14, 0x06, 0x02\n");
CODE(bp_is_offset_sf, ".cfi_escape 0x15, 0x06, 0x02\n");
CODE(bp_is_nowhere, ".cfi_undefined 6\n");
CODE(bp_is_same, ".cfi_offset 6, -16\n.cfi_same_value 6\n");
CODE(bp_restored, ".cfi_offset 6, -16\n.cfi_restore 6\n");
CODE(bp_restored_extended, ".cfi_offset 6, -16\n.cfi_escape 0x06, 0x06\n");
CODE(bp_extended, ".cfi_escape 0x05, 0x06, 0x02\n");
CODE(bp_extended_sf, ".cfi_escape 0x11, 0x06, 0x02\n");
CODE(cfa_sf, ".cfi_escape 0x12, 0x06, 0x7e\n");
CODE(cfa_offset_sf, ".cfi_escape 0x13, 0x7d\n");
CODE(cfa_register, ".cfi_def_cfa_offset 24\n.cfi_def_cfa_register 6\n");
CODE(register_of_word, WORD_BY_BP ".cfi_escape 0x0d, 0x07\n");
CODE(others_saved, ".cfi_offset 3, -24\n.cfi_offset 12, -32\n.cfi_restore 3\n");
CODE(sp_saved, ".cfi_offset 7, -24\n");
CODE(ra_elsewhere, ".cfi_offset 16, -16\n");
CODE(ra_same, ".cfi_same_value 16\n");
CODE(outermost, ".cfi_undefined 16\n");
CODE(remembered, ".cfi_remember_state\n.cfi_def_cfa_offset 32\n.cfi_restore_state\n");
CODE(four_deep,
        ".cfi_remember_state\n.cfi_remember_state\n.cfi_remember_state\n.cfi_remember_state\n"
        ".cfi_def_cfa_offset 32\n.cfi_restore_state\n.cfi_def_cfa_offset 24\n");
CODE(five_deep,
        ".cfi_remember_state\n.cfi_remember_state\n.cfi_remember_state\n.cfi_remember_state\n"
        ".cfi_remember_state\n");
CODE(none_remembered, ".cfi_escape 0x0b\n");
CODE(arguments, ".cfi_escape 0x2e, 0x10\n.cfi_escape 0x00\n");
CODE(not_known, ".cfi_escape 0x2d\n");
CODE(later, "nop\n.cfi_def_cfa_offset 64\n");
CODE(later_1, ".skip 100, 0x90\n.cfi_def_cfa_offset 64\n");
CODE(later_2, ".skip 300, 0x90\n.cfi_def_cfa_offset 64\n");
CODE(later_4, ".skip 70000, 0x90\n.cfi_def_cfa_offset 64\n");
CODE(with_handler, ".cfi_personality 0x1b, usual\n.cfi_lsda 0x1b, usual\n");
CODE(of_a_signal, ".cfi_signal_frame\n");

enum {
    SP,
    BP,
};

static const struct {
    const char *code;
    unsigned at;
    enum cfirule_kind kind;
    int base, cfa;
    bool has_bp;
    int bp;
} cases[] = {
        {usual, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {pushed, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {pushed, 2, CFIRULE_PLAIN, SP, 16, true, -16},
        {framed, 1, CFIRULE_PLAIN, BP, 16, true, -16},
        {other_base, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {too_near, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {beyond_31_bits, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {largest, 1, CFIRULE_PLAIN, SP, INT32_MAX, false, 0},
        {far_bp, 1, CFIRULE_PLAIN, SP, 8, true, INT16_MIN},
        {too_far_bp, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {aligned, 1, CFIRULE_ALIGNED, BP, -8, true, 16},
        {word_alone, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_alone, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {word_too_far, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {word_of_sp, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {no_word, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {word_of_word, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {empty_word, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_by_sp, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_is_value, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_in_register, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_is_offset, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_is_offset_sf, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_is_nowhere, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {bp_is_same, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {bp_restored, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {bp_restored_extended, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {bp_extended, 1, CFIRULE_PLAIN, SP, 8, true, -16},
        {bp_extended_sf, 1, CFIRULE_PLAIN, SP, 8, true, -16},
        {cfa_sf, 1, CFIRULE_PLAIN, BP, 16, false, 0},
        {cfa_offset_sf, 1, CFIRULE_PLAIN, SP, 24, false, 0},
        {cfa_register, 1, CFIRULE_PLAIN, BP, 24, false, 0},
        {register_of_word, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {others_saved, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {sp_saved, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {ra_elsewhere, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {ra_same, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {outermost, 1, CFIRULE_END, 0, 0, false, 0},
        {remembered, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {four_deep, 1, CFIRULE_PLAIN, SP, 24, false, 0},
        {five_deep, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {none_remembered, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {arguments, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {not_known, 1, CFIRULE_OTHER, 0, 0, false, 0},
        {later, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {later, 2, CFIRULE_PLAIN, SP, 64, false, 0},
        {later_1, 100, CFIRULE_PLAIN, SP, 8, false, 0},
        {later_1, 101, CFIRULE_PLAIN, SP, 64, false, 0},
        {later_2, 300, CFIRULE_PLAIN, SP, 8, false, 0},
        {later_2, 301, CFIRULE_PLAIN, SP, 64, false, 0},
        {later_4, 70000, CFIRULE_PLAIN, SP, 8, false, 0},
        {later_4, 70001, CFIRULE_PLAIN, SP, 64, false, 0},
        {with_handler, 1, CFIRULE_PLAIN, SP, 8, false, 0},
        {of_a_signal, 1, CFIRULE_OTHER, 0, 0, false, 0},
};

static void check_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cfirule rule = cfirule_of((uintptr_t)cases[i].code + cases[i].at);
        int failures = check_state.failures;

        CHECK_EQ(rule.kind, cases[i].kind);
        if (cases[i].kind == CFIRULE_PLAIN || cases[i].kind == CFIRULE_ALIGNED) {
            CHECK_EQ(rule.is_by_bp, cases[i].base == BP);
            CHECK_EQ(rule.cfa, cases[i].cfa);
            CHECK_EQ(rule.has_bp, cases[i].has_bp);
            CHECK_EQ(rule.bp, cases[i].bp);
        }
        if (check_state.failures > failures)
            printf("    case %zu\n", i);
    }
}

#else

static void check_cases(void)
{
    SKIP("frames are followed by rules on x86-64 alone");
}

#endif

TEST(a_rule_is_what_the_directives_say)
{
    check_cases();
}
