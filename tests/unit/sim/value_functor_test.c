/* SPDX-License-Identifier: MIT */
/* PyTorch's functors by name against the host's own arithmetic, and types of elements. No device. */
#include "tests/check.h"
#include "tests/sim/values/value_functor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ITER   "(at::TensorIteratorBase&)"
#define LAMBDA "::{lambda()#1}::operator()() const::{lambda()#7}::operator()() const"

/* The functor of that name with so many arguments; REQUIREs that it is known. */
static struct value_functor functor(const char *name, unsigned arity)
{
    struct value_functor f;

    REQUIRE(value_functor_find((struct text){name, strlen(name)}, arity, &f));
    return f;
}

static bool is_known(const char *name, unsigned arity)
{
    struct value_functor f;

    return value_functor_find((struct text){name, strlen(name)}, arity, &f);
}

/* Of two numbers, with what the functor carries. */
static struct value call(
        const char *name, unsigned arity, const void *carried, struct value a, struct value b)
{
    struct value_functor f = functor(name, arity);
    struct value_carried c;

    value_functor_carried(&f, carried, &c);
    return value_functor_call(&f, &c, (struct value[]){a, b});
}

static double floats(const char *name, unsigned arity, double a, double b)
{
    static const char nothing[64];

    return call(name, arity, nothing, value_of_float(a), value_of_float(b)).f;
}

static int64_t ints(const char *name, int64_t a, int64_t b)
{
    static const char nothing[64];

    return call(name, 2, nothing, value_of_integer(a), value_of_integer(b)).i;
}

TEST(every_float_of_8_bits_is_what_it_was)
{
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        enum value_type types[] = {VALUE_F8_E4M3, VALUE_F8_E5M2};

        for (unsigned i = 0; i < 2; i++) {
            uint8_t small = (uint8_t)bits, back = 0;
            struct value value = value_read(types[i], &small);

            value_write(types[i], value, &back);
            CHECK_EQ(isnan(value.f) ? back | 0x80 : back, isnan(value.f) ? 0xff : bits);
            CHECK_EQ(isnan(value.f), i == 0 ? (bits & 127) == 127 : (bits & 127) > 124);
        }
    }
}

/* PyTorch's own conversion says what is right. */
TEST(floats_of_8_bits_are_rounded_to_the_nearest)
{
    static const struct {
        double from, e4m3, e5m2;
    } rows[] = {{3.14, 3.25, 3}, {-2.5, -2.5, -2.5}, {17, 16, 16}, {19, 20, 20}, {100, 96, 96},
            {0.001, 0x1p-9, 0x1p-10}, {0.0009, 0, 0.0008544921875}, {463, 448, 448},
            {1000, 448, 1024}, {60000, 448, 57344}, {61440, 448, (double)INFINITY},
            {(double)INFINITY, 448, (double)INFINITY}, {0, 0, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        CHECK(value_as(VALUE_F8_E4M3, value_of_float(rows[i].from)).f == rows[i].e4m3);
        CHECK(value_as(VALUE_F8_E5M2, value_of_float(rows[i].from)).f == rows[i].e5m2);
    }
}

TEST(casts_to_8_bits_are_known_where_the_name_says_the_type)
{
    CHECK_EQ(functor("at::native::ConvertToFloat8E4M3fnOp<c10::Half>", 1).result, VALUE_F8_E4M3);
    CHECK_EQ(functor("at::native::ConvertFloatToFloat8E5M2Op", 1).result, VALUE_F8_E5M2);
    CHECK_EQ(functor("at::native::converting_copy_kernel_cuda<c10::Half, c10::Float8_e5m2>" ITER
                     "::{lambda(c10::Half)#1}",
                     1)
                     .result,
            VALUE_F8_E5M2);
    CHECK_EQ(functor("at::native::float8_copy_kernel_cuda" ITER "::{lambda(c10::Float8_e5m2)#1}", 1)
                     .result,
            VALUE_F8_E5M2);
    CHECK(!is_known("at::native::float8_copy_kernel_cuda" ITER "::{lambda(float)#1}", 1));
    CHECK(!is_known("at::native::ConvertSomething", 1));
}

TEST(every_half_is_what_it_was)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t half = (uint16_t)bits, back;
        enum value_type types[] = {VALUE_F16, VALUE_BF16};

        for (unsigned i = 0; i < 2; i++) {
            struct value v = value_read(types[i], &half);

            value_write(types[i], v, &back);
            if (isnan(v.f))
                CHECK(isnan(value_read(types[i], &back).f));
            else if (back != half)
                CHECK_EQ(back, half);
        }
    }
}

TEST(halves_are_rounded_to_the_nearest_and_to_even)
{
    uint16_t half;

    value_write(VALUE_F16, value_of_float(1 + 0x1p-11), &half);
    CHECK_EQ(half, 0x3c00); /* between 1 and its successor: the even one */
    value_write(VALUE_F16, value_of_float(1 + 3 * 0x1p-11), &half);
    CHECK_EQ(half, 0x3c02);
    value_write(VALUE_F16, value_of_float(65519), &half);
    CHECK_EQ(half, 0x7bff);
    value_write(VALUE_F16, value_of_float(65520), &half);
    CHECK_EQ(half, 0x7c00);
    value_write(VALUE_F16, value_of_float(0x1p-24), &half);
    CHECK_EQ(half, 1);
    value_write(VALUE_F16, value_of_float(-0x1p-26), &half);
    CHECK_EQ(half, 0x8000);
    value_write(VALUE_BF16, value_of_float((double)FLT_MAX), &half);
    CHECK_EQ(half, 0x7f80);
    value_write(VALUE_BF16, value_of_float(1 + 0x1p-8), &half);
    CHECK_EQ(half, 0x3f80);
    value_write(VALUE_BF16, value_of_float(1 + 3 * 0x1p-8), &half);
    CHECK_EQ(half, 0x3f82);
}

TEST(casts_are_those_of_the_host)
{
    unsigned char byte;
    int8_t narrow;
    int64_t wide;

    value_write(VALUE_BOOL, value_of_float(0.25), &byte);
    CHECK_EQ(byte, 1);
    value_write(VALUE_BOOL, value_of_float((double)NAN), &byte);
    CHECK_EQ(byte, 1);
    value_write(VALUE_I8, value_of_integer(300), &narrow);
    CHECK_EQ(narrow, 44);
    value_write(VALUE_I64, value_of_float(-3.9), &wide);
    CHECK_EQ(wide, -3);
    byte = 7; /* a bool of any bits is true */
    CHECK_EQ(value_read(VALUE_BOOL, &byte).i, 1);
    CHECK_EQ(value_read(VALUE_U8, (const unsigned char[]){255}).i, 255);
    CHECK_EQ(value_read(VALUE_I8, (const unsigned char[]){255}).i, -1);
    CHECK_EQ(value_of_float(1e300).i, INT64_MAX);
    CHECK_EQ(value_of_float((double)NAN).i, 0);
}

TEST(functions_of_one_argument_are_the_hosts)
{
#define OF(name, expression)                                                                 \
    for (double x = -2.5; x < 3; x += 0.25) {                                                \
        double got = floats("at::native::" name ITER LAMBDA "::{lambda(float)#1}", 1, x, 0); \
        double right = expression;                                                           \
        CHECK((isnan(got) && isnan(right)) || got == right);                                 \
    }
    OF("exp_kernel_cuda", exp(x))
    OF("log_kernel_cuda", log(x))
    OF("tanh_kernel_cuda", tanh(x))
    OF("round_kernel_cuda", nearbyint(x))
    OF("trunc_kernel_cuda", trunc(x))
    OF("neg_kernel_cuda", -x)
    OF("rsqrt_kernel_cuda", 1 / sqrt(x))
    OF("sqrt_kernel_cuda", sqrt(x))
    OF("expm1_kernel_cuda", expm1(x))
    OF("sigmoid_kernel_cuda", 1 / (1 + exp(-x)))
#undef OF
}

TEST(python_divides_downwards)
{
#define DIVIDES "at::native::BinaryFunctor<long, long, long, at::native::binary_internal::"
#define OF_LONG ITER LAMBDA "::{lambda(long, long)#1}>"
    CHECK_EQ(ints(DIVIDES "div_floor_kernel_cuda" OF_LONG, -7, 2), -4);
    CHECK_EQ(ints(DIVIDES "div_trunc_kernel_cuda" OF_LONG, -7, 2), -3);
    CHECK_EQ(ints(DIVIDES "remainder_kernel_cuda" OF_LONG, -7, 2), 1);
    CHECK_EQ(ints(DIVIDES "remainder_kernel_cuda" OF_LONG, 7, -2), -1);
    CHECK_EQ(ints(DIVIDES "fmod_kernel_cuda" OF_LONG, -7, 2), -1);
    /* the host must not fault */
    CHECK_EQ(ints(DIVIDES "div_floor_kernel_cuda" OF_LONG, INT64_MIN, -1), INT64_MIN);
    (void)ints(DIVIDES "div_floor_kernel_cuda" OF_LONG, 1, 0);
    (void)ints(DIVIDES "remainder_kernel_cuda" OF_LONG, 1, 0);
#define OF_FLOAT                                                                             \
    "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::div_floor_" \
    "kernel_cuda" ITER LAMBDA "::{lambda(float, float)#1}>"
    CHECK(floats(OF_FLOAT, 2, -7, 2) == -4);
    CHECK(isinf(floats(OF_FLOAT, 2, 7, 0)));
    CHECK(signbit(floats(OF_FLOAT, 2, -0.0, 2)));
}

TEST(nan_is_carried_and_compares_with_nothing)
{
    const double nan = (double)NAN;

#define GREATEST                                                                                 \
    "at::native::BinaryFunctor<float, float, float, at::native::maximum_kernel_cuda" ITER LAMBDA \
    "::{lambda(float, float)#1}>"
    CHECK(isnan(floats(GREATEST, 2, nan, 1)));
    CHECK(isnan(floats(GREATEST, 2, 1, nan)));
    CHECK(floats(GREATEST, 2, 1, 2) == 2);
    for (int op = 0; op < 4; op++) {
        struct {
            int op;
            float with;
        } than = {op, NAN};

        CHECK(call("at::native::compare_scalar_kernel<float>(..)::{lambda(float)#1}", 1, &than,
                      value_of_float(1), value_of_float(0))
                        .f
                == 0);
    }
    const int equal[] = {0, 1}; /* EQ, NE */
    CHECK(call("at::native::BinaryFunctor<float, float, bool, at::native::(anonymous "
               "namespace)::CompareEqFunctor<float> >",
                  2, &equal[0], value_of_float(nan), value_of_float(nan))
                    .f
            == 0);
    CHECK(call("at::native::BinaryFunctor<float, float, bool, at::native::(anonymous "
               "namespace)::CompareEqFunctor<float> >",
                  2, &equal[1], value_of_float(nan), value_of_float(nan))
                    .f
            == 1);
}

TEST(what_a_functor_carries_lies_where_the_compiler_put_it)
{
    const struct {
        int limits;
        float low, high;
    } clamp = {2, -0.5F, 0.5F};
    const struct {
        int limits;
        int64_t low, high;
    } wide = {2, -5, 5};
    const float sum[] = {2, -1}; /* other, alpha */
    const struct {
        char functor;
        float bound;
    } half = {0, 3}; /* a scalar has the type that is computed with */

#define CLAMP(types) \
    "at::native::(anonymous namespace)::launch_clamp_scalar(..)" LAMBDA "::{lambda(" types ")#1}"
    CHECK(call(CLAMP("float"), 1, &clamp, value_of_float(2), value_of_float(0)).f == 0.5);
    CHECK_EQ(call(CLAMP("long"), 1, &wide, value_of_integer(-9), value_of_integer(0)).i, -5);
    CHECK(call("at::native::CUDAFunctorOnOther_add<float>", 1, sum, value_of_float(5),
                  value_of_float(0))
                    .f
            == -3);
    CHECK(call("at::native::CUDAFunctorOnSelf_add<float>", 1, sum, value_of_float(5),
                  value_of_float(0))
                    .f
            == 3);
    CHECK(call("at::native::AUnaryFunctor<c10::Half, c10::Half, c10::Half, "
               "at::native::binary_internal::MulFunctor<float> >",
                  1, &half, value_of_float(2), value_of_float(0))
                    .f
            == 6);
}

TEST(results_have_the_types_that_names_say)
{
    CHECK_EQ(functor("at::native::CUDAFunctor_add<c10::Half>", 2).result, VALUE_F16);
    CHECK_EQ(
            functor("at::native::converting_copy_kernel_cuda<bool, long>" ITER "::{lambda(bool)#1}",
                    1)
                    .result,
            VALUE_I64);
    CHECK_EQ(functor("at::native::BinaryFunctor<long, long, bool, at::native::(anonymous "
                     "namespace)::CompareEqFunctor<long> >",
                     2)
                     .result,
            VALUE_BOOL);
    CHECK_EQ(functor("at::native::where_kernel_impl(at::TensorIterator&)" LAMBDA
                     "::{lambda(bool, unsigned int, unsigned int)#1}",
                     3)
                     .result,
            VALUE_U32);
    CHECK_EQ(functor("at::native::logical_not_kernel_cuda" ITER LAMBDA "::{lambda(float)#1}", 1)
                     .result,
            VALUE_BOOL);
    /* not of a bool, which has one bit */
    CHECK(call("at::native::bitwise_not_kernel_cuda" ITER "::{lambda(bool)#1}", 1, "",
                  value_of_integer(1), value_of_integer(0))
                    .i
            == 0);
    CHECK_EQ(call("at::native::bitwise_not_kernel_cuda" ITER LAMBDA "::{lambda(int)#1}", 1, "",
                     value_of_integer(1), value_of_integer(0))
                     .i,
            -2);
}

TEST(what_is_not_known_is_refused)
{
    CHECK(is_known("at::native::exp_kernel_cuda" ITER LAMBDA "::{lambda(float)#1}", 1));
    CHECK(!is_known("at::native::my_exp_kernel_cuda" ITER LAMBDA "::{lambda(float)#1}", 1));
    CHECK(!is_known(
            "at::native::exp_kernel_cuda" ITER LAMBDA "::{lambda(c10::complex<float>)#1}", 1));
    CHECK(!is_known("at::native::exp_kernel_cuda" ITER LAMBDA "::{lambda(int)#1}", 1));
    CHECK(!is_known("at::native::exp_kernel_cuda" ITER LAMBDA "::{lambda(float, float)#1}", 2));
    CHECK(!is_known("at::native::CUDAFunctor_add<c10::complex<double> >", 2));
    CHECK(!is_known("", 1));
    /* of a power by a scalar the number of the lambda says which one */
#define POWER "at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<float, float>(..)"
    CHECK(floats(POWER "::{lambda(float)#1}", 1, 3, 0) == 9);
    CHECK(floats(POWER "::{lambda(float)#2}", 1, 3, 0) == 27);
    CHECK(!is_known(POWER "::{lambda(float)#9}", 1));
}
