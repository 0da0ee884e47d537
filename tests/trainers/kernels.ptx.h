/* SPDX-License-Identifier: MIT */
/*
 * kernels.ptx.h - the kernels of the trainers, PTX text written by hand.
 *
 * PTX needs no compiler here and no toolkit: a driver turns it into code for the GPU that it finds, from sm_70 on.
 * A simulated device reads the names and runs host bodies that do the same. What each kernel does is said in
 * kernels_host.h, which words it touches in sample.h; a test runs this very text through an interpreter and
 * compares it with the C.
 *
 *     kedge_fill(u64 dst, u64 bytes, u32 seed)             writes dst
 *     kedge_mix(u64 dst, u64 src, u64 bytes)               reads and writes dst, reads src
 *     kedge_sum(u64 out, u64 src, u64 bytes)               adds to the 8 bytes at out, reads src
 *     kedge_sum_at(u64 out, u64 at, u64 bytes)             as kedge_sum of the address that stands at `at`
 *     kedge_copy_strided(u64 dst, u64 src, u64 rows, u64 row_bytes, u64 src_stride)
 *                                                          writes dst, reads src
 *
 * Any one-dimensional grid will do: threads walk the items of the sample in strides of the whole grid.
 */
#ifndef KEDGE_TRAINERS_KERNELS_PTX_H
#define KEDGE_TRAINERS_KERNELS_PTX_H

/* clang-format off */

/* %item = this thread's first item, %stride = threads in the grid, %items and %words of a tensor of %bytes. */
#define PTX_SAMPLE_BEGIN \
    "    mov.u32 %a, %ctaid.x;\n" \
    "    mov.u32 %b, %ntid.x;\n" \
    "    mov.u32 %c, %tid.x;\n" \
    "    mov.u32 %d, %nctaid.x;\n" \
    "    mul.wide.u32 %item, %a, %b;\n" \
    "    cvt.u64.u32 %t, %c;\n" \
    "    add.u64 %item, %item, %t;\n" \
    "    mul.wide.u32 %stride, %b, %d;\n" \
    "    shr.u64 %words, %bytes, 2;\n" \
    "    mov.u64 %items, %words;\n" \
    "    setp.le.u64 %whole, %bytes, 8192;\n" \
    "    @%whole bra NEXT;\n" \
    "    add.u64 %steps, %bytes, 2097151;\n" \
    "    shr.u64 %steps, %steps, 21;\n" \
    "    add.u64 %items, %steps, 1;\n" \
    "    shl.b64 %items, %items, 10;\n" \
    /* where the last step's page begins, which the last page leaves out */ \
    "    sub.u64 %taken, %steps, 1;\n" \
    "    shl.b64 %taken, %taken, 19;\n" \
    /* each item: %w = its word */ \
    "NEXT:\n" \
    "    setp.ge.u64 %p, %item, %items;\n" \
    "    @%p bra DONE;\n" \
    "    mov.u64 %w, %item;\n" \
    "    add.u64 %item, %item, %stride;\n" \
    "    @%whole bra WORD;\n" \
    "    shr.u64 %step, %w, 10;\n" \
    "    and.b64 %column, %w, 1023;\n" \
    "    setp.ge.u64 %p, %step, %steps;\n" \
    "    @%p bra LAST;\n" \
    "    shl.b64 %w, %step, 19;\n" \
    "    add.u64 %w, %w, %column;\n" \
    "    setp.ge.u64 %p, %w, %words;\n" \
    "    @%p bra NEXT;\n" \
    "    bra WORD;\n" \
    "LAST:\n" \
    "    sub.u64 %w, %bytes, 4096;\n" \
    "    shr.u64 %w, %w, 2;\n" \
    "    add.u64 %w, %w, %column;\n" \
    "    sub.u64 %t, %w, %taken;\n" \
    "    setp.lt.u64 %p, %t, 1024;\n" \
    "    @%p bra NEXT;\n" \
    "WORD:\n"

#define PTX_SAMPLE_END \
    "    bra NEXT;\n" \
    "DONE:\n"

#define PTX_REGISTERS \
    "    .reg .pred %p, %whole;\n" \
    "    .reg .u32 %a, %b, %c, %d, %v, %h, %seed;\n" \
    "    .reg .u64 %item, %items, %stride, %steps, %step, %column, %taken, %words, %w, %t;\n" \
    "    .reg .u64 %bytes, %dst, %src, %sum, %address, %rows, %row_bytes, %row, %pitch;\n"

/* Adds the words of %src to what stands at %dst. */
#define PTX_SUM \
    "    mov.u64 %sum, 0;\n" \
    PTX_SAMPLE_BEGIN \
    "    shl.b64 %t, %w, 2;\n" \
    "    add.u64 %address, %src, %t;\n" \
    "    ld.global.u32 %v, [%address];\n" \
    "    cvt.u64.u32 %t, %v;\n" \
    "    add.u64 %w, %w, 1;\n" \
    "    mul.lo.u64 %t, %t, %w;\n" \
    "    add.u64 %sum, %sum, %t;\n" \
    PTX_SAMPLE_END \
    "    red.global.add.u64 [%dst], %sum;\n" \
    "    ret;\n"

static const char kernels_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"

    ".visible .entry kedge_fill(.param .u64 p_dst, .param .u64 p_bytes, .param .u32 p_seed)\n"
    "{\n"
    PTX_REGISTERS
    "    ld.param.u64 %dst, [p_dst];\n"
    "    ld.param.u64 %bytes, [p_bytes];\n"
    "    ld.param.u32 %seed, [p_seed];\n"
    "    cvta.to.global.u64 %dst, %dst;\n"
    PTX_SAMPLE_BEGIN
    "    cvt.u32.u64 %v, %w;\n"
    "    mul.lo.u32 %v, %v, 2654435761;\n"
    "    add.u32 %v, %v, %seed;\n"
    "    shr.u32 %h, %v, 16;\n"
    "    xor.b32 %v, %v, %h;\n"
    "    mul.lo.u32 %v, %v, 2146121005;\n" /* 0x7feb352d */
    "    shr.u32 %h, %v, 15;\n"
    "    xor.b32 %v, %v, %h;\n"
    "    mul.lo.u32 %v, %v, 2221713035;\n" /* 0x846ca68b */
    "    shr.u32 %h, %v, 16;\n"
    "    xor.b32 %v, %v, %h;\n"
    "    shl.b64 %t, %w, 2;\n"
    "    add.u64 %address, %dst, %t;\n"
    "    st.global.u32 [%address], %v;\n"
    PTX_SAMPLE_END
    "    ret;\n"
    "}\n"

    ".visible .entry kedge_mix(.param .u64 p_dst, .param .u64 p_src, .param .u64 p_bytes)\n"
    "{\n"
    PTX_REGISTERS
    "    ld.param.u64 %dst, [p_dst];\n"
    "    ld.param.u64 %src, [p_src];\n"
    "    ld.param.u64 %bytes, [p_bytes];\n"
    "    cvta.to.global.u64 %dst, %dst;\n"
    "    cvta.to.global.u64 %src, %src;\n"
    PTX_SAMPLE_BEGIN
    "    shl.b64 %t, %w, 2;\n"
    "    add.u64 %address, %src, %t;\n"
    "    ld.global.u32 %h, [%address];\n"
    "    add.u64 %address, %dst, %t;\n"
    "    ld.global.u32 %v, [%address];\n"
    "    mul.lo.u32 %v, %v, 1664525;\n"
    "    add.u32 %v, %v, %h;\n"
    "    add.u32 %v, %v, 1013904223;\n"
    "    st.global.u32 [%address], %v;\n"
    PTX_SAMPLE_END
    "    ret;\n"
    "}\n"

    ".visible .entry kedge_sum(.param .u64 p_out, .param .u64 p_src, .param .u64 p_bytes)\n"
    "{\n"
    PTX_REGISTERS
    "    ld.param.u64 %dst, [p_out];\n"
    "    ld.param.u64 %src, [p_src];\n"
    "    ld.param.u64 %bytes, [p_bytes];\n"
    "    cvta.to.global.u64 %dst, %dst;\n"
    "    cvta.to.global.u64 %src, %src;\n"
    PTX_SUM
    "}\n"

    ".visible .entry kedge_sum_at(.param .u64 p_out, .param .u64 p_at, .param .u64 p_bytes)\n"
    "{\n"
    PTX_REGISTERS
    "    ld.param.u64 %dst, [p_out];\n"
    "    ld.param.u64 %src, [p_at];\n"
    "    ld.param.u64 %bytes, [p_bytes];\n"
    "    cvta.to.global.u64 %dst, %dst;\n"
    "    cvta.to.global.u64 %src, %src;\n"
    "    ld.global.u64 %src, [%src];\n"
    "    cvta.to.global.u64 %src, %src;\n"
    PTX_SUM
    "}\n"

    ".visible .entry kedge_copy_strided(.param .u64 p_dst, .param .u64 p_src, .param .u64 p_rows,\n"
    "        .param .u64 p_row_bytes, .param .u64 p_src_stride)\n"
    "{\n"
    PTX_REGISTERS
    "    ld.param.u64 %dst, [p_dst];\n"
    "    ld.param.u64 %src, [p_src];\n"
    "    ld.param.u64 %rows, [p_rows];\n"
    "    ld.param.u64 %row_bytes, [p_row_bytes];\n"
    "    ld.param.u64 %pitch, [p_src_stride];\n"
    "    cvta.to.global.u64 %dst, %dst;\n"
    "    cvta.to.global.u64 %src, %src;\n"
    "    mul.lo.u64 %bytes, %rows, %row_bytes;\n"
    PTX_SAMPLE_BEGIN
    "    shl.b64 %t, %w, 2;\n"
    "    add.u64 %address, %dst, %t;\n"
    "    div.u64 %row, %t, %row_bytes;\n"
    "    mul.lo.u64 %column, %row, %row_bytes;\n"
    "    sub.u64 %t, %t, %column;\n"
    "    mul.lo.u64 %row, %row, %pitch;\n"
    "    add.u64 %t, %t, %row;\n"
    "    add.u64 %t, %t, %src;\n"
    "    ld.global.u32 %v, [%t];\n"
    "    st.global.u32 [%address], %v;\n"
    PTX_SAMPLE_END
    "    ret;\n"
    "}\n";

/* clang-format on */

#undef PTX_SAMPLE_BEGIN
#undef PTX_SAMPLE_END
#undef PTX_SUM
#undef PTX_REGISTERS

#endif
