/* SPDX-License-Identifier: MIT */
#include "tests/sim/values/value_type.h"

#include <math.h>

static const struct {
    const char *name;
    enum value_type type;
} names[] = {{"bool", VALUE_BOOL}, {"unsigned char", VALUE_U8}, {"signed char", VALUE_I8},
        {"char", VALUE_I8}, {"short", VALUE_I16}, {"int", VALUE_I32}, {"long", VALUE_I64},
        {"long long", VALUE_I64}, {"unsigned short", VALUE_U16}, {"unsigned int", VALUE_U32},
        {"unsigned long", VALUE_U64}, {"unsigned long long", VALUE_U64},
        {"c10::Float8_e4m3fn", VALUE_F8_E4M3}, {"c10::Float8_e5m2", VALUE_F8_E5M2},
        {"c10::Half", VALUE_F16}, {"c10::BFloat16", VALUE_BF16}, {"float", VALUE_F32},
        {"double", VALUE_F64}};

enum value_type value_type_named(struct text name)
{
    if (ends(name, " const"))
        name.length -= strlen(" const");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is_text(name, names[i].name))
            return names[i].type;
    return VALUE_NONE;
}

enum value_type value_type_numbered(unsigned number)
{
    static const enum value_type types[] = {[0] = VALUE_U8,
            [1] = VALUE_I8,
            [2] = VALUE_I16,
            [3] = VALUE_I32,
            [4] = VALUE_I64,
            [5] = VALUE_F16,
            [6] = VALUE_F32,
            [7] = VALUE_F64,
            [11] = VALUE_BOOL,
            [15] = VALUE_BF16,
            [23] = VALUE_F8_E5M2,
            [24] = VALUE_F8_E4M3,
            [27] = VALUE_U16,
            [28] = VALUE_U32,
            [29] = VALUE_U64};

    return number < sizeof(types) / sizeof(types[0]) ? types[number] : VALUE_NONE;
}

uint32_t value_size(enum value_type type)
{
    static const uint32_t sizes[VALUE_TYPE_COUNT] = {
            0, 1, 1, 1, 2, 4, 8, 2, 4, 8, 1, 1, 2, 2, 4, 8};

    return sizes[type];
}

bool value_is_float(enum value_type type)
{
    return type >= VALUE_F8_E4M3;
}

enum value_type value_math_type(enum value_type type)
{
    return type >= VALUE_F8_E4M3 && type <= VALUE_BF16 ? VALUE_F32 : type;
}

struct value value_of_float(double f)
{
    int64_t i = 0;

    if (f >= -0x1p63 && f < 0x1p63)
        i = (int64_t)f;
    else if (!isnan(f))
        i = f < 0 ? INT64_MIN : INT64_MAX;
    return (struct value){f, i, true};
}

struct value value_of_integer(int64_t i)
{
    return (struct value){(double)i, i, false};
}

/* ---- floats of 8 bits: the OCP's "8-bit Floating Point Specification", revision 1.0 ---- */

/* e5m2 is the upper half of a half; e4m3 has no infinity, and one NaN. */
static double from_e4m3(uint8_t bits)
{
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    double size = (bits & 127) == 127 ? (double)NAN
            : exponent                ? ldexp(fraction + 8, exponent - 10)
                                      : ldexp(fraction, -9);

    return bits >> 7 ? -size : size;
}

/*
 * The fraction has `width` bits, `least` is the exponent of the smallest normal number. What is
 * larger than `largest` becomes that: of e5m2 infinity; of e4m3 its largest number, as in PyTorch
 * 2.13 and later ones (2.11 and earlier ones have NaN).
 */
static uint8_t to_float8(double f, int width, int least, double largest)
{
    double size = fabs(f) < largest ? fabs(f) : largest;
    int exponent = size >= ldexp(1, least) ? ilogb(size) : least;
    int bits = (exponent - least) * (1 << width) + (int)nearbyint(ldexp(size, width - exponent));

    return (uint8_t)((signbit(f) ? 0x80 : 0) | (isnan(f) ? 0x7f : bits));
}

/* ---- floats of 16 bits ---- */

static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
            : exponent           ? ldexp(fraction + 1024, exponent - 25)
                                 : ldexp(fraction, -24);

    return bits >> 15 ? -size : size;
}

static uint16_t to_half(double f)
{
    uint16_t sign = signbit(f) ? 0x8000 : 0;
    double size = fabs(f);
    int exponent;

    if (isnan(f))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    exponent = size >= 0x1p-14 ? ilogb(size) : -14;
    /* the fraction with its leading bit; one that was rounded up to 2048 carries into the exponent */
    return (uint16_t)(sign | ((exponent + 14) * 1024 + (int)nearbyint(ldexp(size, 10 - exponent))));
}

static double from_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;

    memcpy(&f, &wide, sizeof(f));
    return (double)f;
}

static uint16_t to_bfloat(double value)
{
    float f = (float)value;
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if (isnan(f))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- bytes ---- */

#define READ(type_)                               \
    {                                             \
        type_ read;                               \
        memcpy(&read, bytes, sizeof(read));       \
        return value_of_integer((int64_t)(read)); \
    }

struct value value_read(enum value_type type, const void *bytes)
{
    uint16_t half = 0;
    float single = 0;
    double f = 0;

    switch (type) {
    case VALUE_BOOL:
        return value_of_integer(*(const unsigned char *)bytes != 0);
    case VALUE_U8:
        READ(uint8_t)
    case VALUE_I8:
        READ(int8_t)
    case VALUE_I16:
        READ(int16_t)
    case VALUE_I32:
        READ(int32_t)
    case VALUE_U16:
        READ(uint16_t)
    case VALUE_U32:
        READ(uint32_t)
    case VALUE_I64:
    case VALUE_U64:
        READ(int64_t)
    case VALUE_F8_E4M3:
        return value_of_float(from_e4m3(*(const uint8_t *)bytes));
    case VALUE_F8_E5M2:
        return value_of_float(from_half((uint16_t)(*(const uint8_t *)bytes << 8)));
    case VALUE_F16:
    case VALUE_BF16:
        memcpy(&half, bytes, sizeof(half));
        return value_of_float(type == VALUE_F16 ? from_half(half) : from_bfloat(half));
    case VALUE_F32:
        memcpy(&single, bytes, sizeof(single));
        return value_of_float((double)single);
    default:
        memcpy(&f, bytes, sizeof(f));
        return value_of_float(f);
    }
}

void value_write(enum value_type type, struct value value, void *bytes)
{
    uint16_t half;
    float single;

    switch (type) {
    case VALUE_BOOL:
        *(unsigned char *)bytes = value.is_float ? value.f != 0 : value.i != 0;
        break;
    case VALUE_F8_E4M3:
        *(uint8_t *)bytes = to_float8(value.f, 3, -6, 448);
        break;
    case VALUE_F8_E5M2:
        *(uint8_t *)bytes = to_float8(value.f, 2, -14, 0x1p16);
        break;
    case VALUE_F16:
    case VALUE_BF16:
        half = type == VALUE_F16 ? to_half(value.f) : to_bfloat(value.f);
        memcpy(bytes, &half, sizeof(half));
        break;
    case VALUE_F32:
        single = (float)value.f;
        memcpy(bytes, &single, sizeof(single));
        break;
    case VALUE_F64:
        memcpy(bytes, &value.f, sizeof(value.f));
        break;
    default:
        memcpy(bytes, &value.i, value_size(type)); /* the low bytes, on this little-endian host */
        break;
    }
}

struct value value_as(enum value_type type, struct value value)
{
    unsigned char bytes[8];

    value_write(type, value, bytes);
    return value_read(type, bytes);
}
