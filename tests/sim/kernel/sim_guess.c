/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_guess.h"

#include "tests/sim/kernel/sim_name.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

typedef char *demangle_fn(const char *, char *, size_t *, int *);

static _Atomic(demangle_fn *) demangle;
static atomic_bool is_prepared;

void sim_guess_prepare(void)
{
    void *library, *found;
    demangle_fn *entry;

    if (atomic_load(&is_prepared))
        return;
    /* A program with C++ kernels has the library; one without needs none. It is never closed. */
    library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    found = library ? dlsym(library, "__cxa_demangle") : NULL;
    if (!found)
        return;
    memcpy(&entry, &found, sizeof(entry));
    atomic_store(&demangle, entry);
    atomic_store(&is_prepared, true);
}

/* ---- types ---- */

struct type {
    const char *name;
    uint32_t size;
    enum sim_digest_kind kind;
};

static const struct type types[] = {{"float", 4, SIM_DIGEST_FLOATS},
        {"double", 8, SIM_DIGEST_FLOATS}, {"c10::Half", 2, SIM_DIGEST_FLOATS},
        {"c10::BFloat16", 2, SIM_DIGEST_FLOATS}, {"__half", 2, SIM_DIGEST_FLOATS},
        {"__nv_bfloat16", 2, SIM_DIGEST_FLOATS}, {"phi::dtype::float16", 2, SIM_DIGEST_FLOATS},
        {"phi::dtype::bfloat16", 2, SIM_DIGEST_FLOATS}, {"bool", 1, SIM_DIGEST_BYTES},
        {"char", 1, SIM_DIGEST_BYTES}, {"signed char", 1, SIM_DIGEST_BYTES},
        {"unsigned char", 1, SIM_DIGEST_BYTES}, {"short", 2, SIM_DIGEST_SHORTS},
        {"unsigned short", 2, SIM_DIGEST_SHORTS}, {"int", 4, SIM_DIGEST_INTS},
        {"unsigned int", 4, SIM_DIGEST_INTS}, {"long", 8, SIM_DIGEST_LONGS},
        {"unsigned long", 8, SIM_DIGEST_LONGS}, {"long long", 8, SIM_DIGEST_LONGS},
        {"unsigned long long", 8, SIM_DIGEST_LONGS}};

static const struct type *type_of(struct text t)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (is_text(t, types[i].name))
            return &types[i];
    return NULL;
}

/* OpaqueType<N>: N bytes of any type. Those of 8 bytes may be an index. False: it is none. */
static bool opaque_type(struct text t, struct type *ret_type)
{
    struct text list;

    if (!template_list(t, "OpaqueType", &list))
        return false;
    *ret_type =
            (struct type){.size = (uint32_t)strtoul(list.at, NULL, 10), .kind = SIM_DIGEST_FLOATS};
    if (ret_type->size == 1 || ret_type->size == 8)
        ret_type->kind = ret_type->size == 1 ? SIM_DIGEST_BYTES : SIM_DIGEST_LONGS;
    return ret_type->size != 0;
}

/* False: the name does not say what the functor returns. */
static bool stated_result(struct text functor, struct type *ret_type)
{
    /* Which argument of the template is the type of the result. */
    static const struct {
        const char *name;
        unsigned item;
    } stated[] = {{"converting_copy_kernel_cuda", 1}, {"BinaryFunctor", 2}, {"AUnaryFunctor", 2},
            {"BUnaryFunctor", 2}};
    static const char *const conditions[] = {"CompareFunctor<", "CompareEqFunctor<",
            "compare_scalar_kernel<", "logical_not_kernel", "isnan_kernel", "isinf_kernel",
            "isfinite_kernel", "signbit_kernel"};
    struct text list;

    for (size_t i = 0; i < sizeof(stated) / sizeof(stated[0]); i++)
        if (template_list(functor, stated[i].name, &list)
                && type_of(nth_item(list, stated[i].item))) {
            *ret_type = *type_of(nth_item(list, stated[i].item));
            return true;
        }
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++)
        if (find(functor, conditions[i])) {
            *ret_type = *type_of((struct text){"bool", 4});
            return true;
        }
    return false;
}

/*
 * The type of what a functor returns, from the types that its name has: the smallest one, so that no more is written
 * than there is, and as integers only if there is no floating-point type. A condition beside values is an argument or
 * an option. An unknown type has elements of a byte.
 */
static struct type result_of(struct text functor)
{
    struct type result = {.size = 0, .kind = SIM_DIGEST_KIND_COUNT};
    const struct type *boolean = type_of((struct text){"bool", 4});
    bool has_bool = false;

    if (stated_result(functor, &result))
        return result;
    for (const char *c = functor.at, *end = functor.at + functor.length; c < end;) {
        size_t length = 0;
        const struct type *type;

        while (c + length < end && !strchr("<>(),{}", c[length]))
            length++;
        type = type_of(trim((struct text){c, length}));
        has_bool = has_bool || type == boolean;
        if (type && type != boolean) {
            if (!result.size || type->size < result.size)
                result.size = type->size;
            if (type->kind < result.kind)
                result.kind = type->kind;
        }
        c += length + 1;
    }
    if (!result.size && has_bool)
        return *boolean;
    if (!result.size)
        return (struct type){.size = 1, .kind = SIM_DIGEST_FLOATS};
    if (find(functor, "bfloat16_copy") || find(functor, "float16_copy"))
        result.size = 2;
    if (find(functor, "where_kernel_impl(") && result.size < 8 && result.size > 1)
        result.kind = SIM_DIGEST_FLOATS; /* its integers stand for any type of that size */
    return result;
}

/* ---- one kernel ---- */

struct maker {
    const struct sim_kernel *kernel;
    struct sim_guess *guess;
    struct text name; /* demangled */
    const struct sim_param *param;
    struct text parameters; /* their types */
};

static struct sim_guess_word *add_word(
        struct maker *m, uint32_t offset, enum sim_role role, bool is_parameter)
{
    struct sim_guess *g = m->guess;
    struct sim_guess_word *word;

    if ((g->words_count & (g->words_count - 1)) == 0)
        g->words =
                sim_grow(g->words, (g->words_count ? g->words_count * 2 : 1) * sizeof(*g->words));
    word = &g->words[g->words_count++];
    *word = (struct sim_guess_word){.offset = offset, .role = role, .is_parameter = is_parameter};
    return word;
}

static void add_factor(struct sim_guess_count *count, uint32_t offset, uint32_t size)
{
    count->is_known = true;
    if (count->factors < SIM_FACTORS)
        count->factor[count->factors++] = (struct sim_guess_factor){offset, size};
}

static const struct {
    const char *name;
    int result;
    const char *factors;
} counted[] = {
#define COUNTED(name, result, factors) {name, result, factors},
#include "tests/sim/base/sim_counts.def"
};

static const struct {
    const char *name, *results;
} writes[] = {
#define WRITES(name, results) {name, results},
#include "tests/sim/base/sim_counts.def"
};

static bool is_integer(struct text type)
{
    const struct type *known = type_of(type);

    return known && (known->kind == SIM_DIGEST_INTS || known->kind == SIM_DIGEST_LONGS);
}

/* Whether a parameter is a TensorInfo with sizes of 32 bits. */
static bool index_info(const struct maker *m, unsigned param)
{
    struct text list;

    return param < m->kernel->params_count && m->kernel->params[param].size == 216
            && template_list(nth_item(m->parameters, param), "TensorInfo", &list);
}

/* The numbers, and the blocks of the grid, that `factors` lists; not known if one of them is no integer. */
static struct sim_guess_count count_by(const struct maker *m, const char *factors)
{
    struct sim_guess_count count = {.is_known = true};

    for (; *factors; factors++) {
        unsigned i = (unsigned)(*factors - '0');

        if (*factors == '@' && index_info(m, (unsigned)(factors[1] - '0')))
            add_factor(&count, m->kernel->params[*++factors - '0'].offset + 8, 4);
        else if (*factors == 'x')
            count.by_x = true;
        else if (*factors == 'y')
            count.by_y = true;
        else if (*factors != ' '
                && (i >= m->kernel->params_count || !is_integer(nth_item(m->parameters, i))
                        || m->kernel->params[i].size > sizeof(uint64_t)))
            return (struct sim_guess_count){0};
        else if (*factors != ' ')
            add_factor(&count, m->kernel->params[i].offset, m->kernel->params[i].size);
    }
    return count;
}

/* Of what the current parameter points to. */
static struct sim_guess_count count_of(const struct maker *m)
{
    int param = (int)(m->param - m->kernel->params);

    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        if ((counted[i].result < 0 || counted[i].result == param) && find(m->name, counted[i].name))
            return count_by(m, counted[i].factors);
    return (struct sim_guess_count){0};
}

/* Whether the kernel writes where the current parameter, which is not const, points to. */
static bool is_result(const struct maker *m)
{
    char number = (char)('0' + (m->param - m->kernel->params));

    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        if (find(m->name, writes[i].name))
            return strchr(writes[i].results, number) != NULL;
    return true;
}

static struct sim_guess_word *add_listed(
        struct maker *m, uint32_t offset, enum sim_role role, uint32_t place)
{
    struct sim_guess_word *word = add_word(m, offset, role, false);

    word->is_listed = true;
    word->place = place;
    return word;
}

static struct sim_guess_word *add_write(
        struct maker *m, uint32_t offset, bool is_parameter, struct type type)
{
    struct sim_guess_word *word = add_word(m, offset, SIM_ROLE_WRITE, is_parameter);

    word->size = type.size;
    word->kind = type.kind;
    word->count = count_of(m);
    return word;
}

/* Each aligned word of a parameter whose type says nothing. */
static void add_words(struct maker *m, uint32_t from, uint32_t to)
{
    for (uint32_t at = (from + 7) & ~7U; at + 8 <= to; at += 8)
        (void)add_word(m, at, SIM_ROLE_TOUCH, false);
}

/* AccumulateType<T, true>::type: what T is summed up in. False: it is none. */
static bool accumulate_type(struct text t, struct type *ret_type)
{
    struct text list;
    const struct type *of =
            template_list(t, "AccumulateType", &list) ? type_of(nth_item(list, 0)) : NULL;

    if (!of)
        return false;
    *ret_type = *of;
    if (of->kind == SIM_DIGEST_FLOATS && of->size < sizeof(float))
        ret_type->size = sizeof(float);
    return true;
}

/*
 * Kernels whose result is a char *, or a type that depends on the functor: cat of so many bytes at once as its sixth argument
 * says; arange, whose lambdas are numbered by type; chunk_cat, which counts bytes. False: it is none of them.
 */
static bool element_type(struct text name, struct type *ret_type)
{
    static const char *const numbered[] = {"unsigned char", "signed char", "int", "long", "short",
            "double", "float", "c10::Half", "c10::BFloat16"};
    static const char last[] = "::operator()() const::{lambda()#";
    struct text list;
    const char *at = find(name, "arange_cuda_out(");
    size_t number;

    if (template_list(name, "CatArrayBatchedCopy_vectorized", &list)) {
        *ret_type = (struct type){.size = (uint32_t)strtoul(nth_item(list, 5).at, NULL, 10)};
        return true;
    }
    if (find(name, "chunk_cat_cuda_kernel")) {
        *ret_type = (struct type){.size = 1};
        return true;
    }
    at = at ? find((struct text){at, name.length - (size_t)(at - name.at)}, last) : NULL;
    number = at ? strtoul(at + sizeof(last) - 1, NULL, 10) : 0;
    if (number == 0 || number > sizeof(numbered) / sizeof(numbered[0]))
        return false;
    *ret_type = *type_of((struct text){numbered[number - 1], strlen(numbered[number - 1])});
    return true;
}

static void add_pointer(struct maker *m, struct text type)
{
    bool is_read = ends(type, " const*");
    struct text pointee = {type.at, type.length - (is_read ? 7 : 1)};
    const struct type *known = type_of(trim(pointee));
    struct type result = {.size = 1};

    if (ends(pointee, "*")) {
        (void)add_word(m, m->param->offset, SIM_ROLE_TOUCH, true);
    } else if (is_read || !is_result(m)) {
        (void)add_word(m, m->param->offset, SIM_ROLE_READ, true);
    } else {
        if (!element_type(m->name, &result) && known)
            result = *known;
        else if (!known && !accumulate_type(pointee, &result))
            (void)opaque_type(pointee, &result);
        (void)add_write(m, m->param->offset, true, result);
    }
}

/* std::array<char*, N>: outputs, then inputs. */
static void add_array(struct maker *m)
{
    struct text list;
    unsigned outputs = 1;
    struct text functor;

    if (template_list(m->name, "for_multi_outputs", &list))
        outputs = (unsigned)strtoul(list.at, NULL, 10);
    if (!template_list(m->name, "elementwise_kernel", &list))
        list = (struct text){m->name.at, 0};
    functor = nth_item(list, 0);
    if (functor.length && functor.length < 4) /* a number */
        functor = nth_item(list, 1);
    for (unsigned i = 0; i * 8 + 8 <= m->param->size; i++) {
        if (i < outputs)
            (void)add_write(m, m->param->offset + i * 8, false, result_of(functor));
        else
            (void)add_word(m, m->param->offset + i * 8, SIM_ROLE_READ, false);
    }
}

/* Paddle's Array<char const* restrict, N>, which are inputs, or Array<T*, N>, which are outputs. False: of something else. */
static bool add_paddle_array(struct maker *m, struct text arguments)
{
    struct text element = nth_item(arguments, 0);
    bool is_read = begins(element, "char const*");
    const struct type *known;

    if (!is_read && !ends(element, "*"))
        return false;
    known = is_read ? NULL : type_of((struct text){element.at, element.length - 1});
    for (uint32_t i = 0; i * 8 + 8 <= m->param->size; i++) {
        if (is_read)
            (void)add_word(m, m->param->offset + i * 8, SIM_ROLE_READ, false);
        else
            (void)add_write(
                    m, m->param->offset + i * 8, false, known ? *known : (struct type){.size = 1});
    }
    return true;
}

/*
 * The closure of PyTorch's elementwise kernel for tensors with strides: an offset calculator for N tensors (25
 * divisors of 12 bytes, 25 strides of 4 bytes for each tensor, 4 bytes in front), then std::array<char*, N>, then the
 * functor. N follows from the size, as a functor is small. What the calculator does not use is not initialised.
 */
static void add_closure(struct maker *m, struct text functor)
{
    uint32_t size = m->param->size, tensors = size > 312 ? (size - 312) / 108 : 0;
    uint32_t at = (304 + 100 * tensors + 7) & ~7U;

    if (tensors == 0 || at + 8 * tensors > size) {
        add_words(m, m->param->offset, m->param->offset + size);
        return;
    }
    for (uint32_t i = 0; i < tensors; i++) {
        if (i == 0)
            (void)add_write(m, m->param->offset + at, false, result_of(functor));
        else
            (void)add_word(m, m->param->offset + at + i * 8, SIM_ROLE_READ, false);
    }
}

/*
 * PyTorch's reductions take one structure that ends in: a plan of 64 bytes, whose third int is the number of results,
 * offset calculators for one and for two tensors (404 and 504 bytes), source, two destinations, three buffers, a 64-bit
 * base, two bools and an int. The type of the result is the fourth argument of ReduceOp. What stands before the plan
 * decides whether the addresses, which are aligned, follow at once or 4 bytes behind.
 */
static void add_reduction(struct maker *m)
{
    uint32_t end = m->param->offset + m->param->size;
    uint32_t plan = 64 + 404 + 504 + 4;
    struct type type = {.size = 1}, second;
    struct sim_guess_count count = {.is_plan = true};
    struct sim_guess_word *word;
    struct text list;

    if (m->param->size < 64 + plan)
        return;
    if (template_list(m->name, "ReduceOp", &list) && type_of(nth_item(list, 3)))
        type = *type_of(nth_item(list, 3));
    /* Of two results the second is an index, except of variance and mean, and of both ends. */
    second = find(m->name, "WelfordOps<") || find(m->name, "MinMaxOps<")
            ? type
            : *type_of((struct text){"long", 4});
    add_factor(&count, end - 64 - plan, sizeof(int32_t));
    (void)add_word(m, end - 64, SIM_ROLE_READ, false);
    word = add_write(m, end - 56, false, type);
    word->count = count;
    word = add_write(m, end - 48, false, second);
    word->count = count;
    add_words(m, end - 40, end - 16);
}

/* TensorInfo<T, I>: the address, 25 sizes and 25 strides of type I, the number of dimensions. */
static void add_tensor_info(struct maker *m, struct text arguments)
{
    struct text type = nth_item(arguments, 0);
    const struct type *known = type_of(type), *index = type_of(nth_item(arguments, 1));
    struct sim_guess_word *word;

    if (ends(type, " const") || !is_result(m)) {
        (void)add_word(m, m->param->offset, SIM_ROLE_READ, false);
        return;
    }
    word = add_write(m, m->param->offset, false, known ? *known : (struct type){.size = 1});
    if (word->count.is_known || !index || m->param->size < 8 + 50 * index->size + 4)
        return;
    add_factor(&word->count, word->offset + 8, index->size);
    word->count.dims = word->offset + 8 + 50 * index->size;
}

/* PackedTensorAccessor<..., T, N, ..., I>: the address, then N sizes of type I. */
static void add_accessor(struct maker *m, struct text arguments)
{
    struct text item, before = {"", 0}, last = {"", 0}, type = {"", 0};
    const struct type *index, *known;
    struct type result = {.size = 1};
    struct sim_guess_word *word;
    uint32_t dims = 0;

    for (struct text rest = arguments; next_item(&rest, &item); before = last = item)
        if (!dims && item.length && item.at[0] >= '1' && item.at[0] <= '5') {
            dims = (uint32_t)(item.at[0] - '0');
            type = before;
        }
    index = type_of(last);
    known = type_of(type);
    if (known)
        result = *known;
    else
        (void)accumulate_type(type, &result);
    if (ends(type, " const") || !is_result(m)) {
        (void)add_word(m, m->param->offset, SIM_ROLE_READ, false);
        return;
    }
    word = add_write(m, m->param->offset, false, result);
    if (word->count.is_known || !index || m->param->size < 8 + dims * index->size)
        return;
    for (uint32_t i = 0; i < dims; i++)
        add_factor(&word->count, word->offset + 8 + i * index->size, index->size);
}

/*
 * Lists of tensors of PyTorch's _foreach_ and fused kernels, with room for so many tensors each:
 *
 *     depth lists of addresses
 *     numbers of elements             8 bytes each
 *     [scalars: of the type that the first argument of the template names, or addresses of steps]
 *     which tensor a block works at   a byte each, for 320 blocks
 *     which part of it                an int each
 *
 * Kernels with 32764 bytes of parameters have room for seven times as many of all, and two bytes for a tensor's number.
 * Of the lists a launch uses as much as its blocks name. The last three arguments of a functor are depth, how many
 * lists it reads, and the list that it writes.
 */
struct tensor_lists {
    uint32_t depth, room, reads, result;
    struct type type; /* of what is written; its size is 0: not known */
};

static bool is_large(const struct maker *m)
{
    return m->param->size > 4096;
}

/* Where a launch says which places it uses: behind the first `size` bytes. False: that lies beyond the parameter. */
static bool find_table(struct maker *m, uint64_t size)
{
    struct sim_guess *g = m->guess;
    uint32_t blocks = is_large(m) ? 320 * 7 : 320, entry = is_large(m) ? 2 : 1;

    if (size + blocks * entry > m->param->size)
        return false;
    g->list = SIM_LIST_TABLE;
    g->table_offset = m->param->offset + (uint32_t)size;
    g->table_size = blocks;
    g->table_entry = entry;
    return true;
}

static void read_functor(struct maker *m, struct tensor_lists *lists)
{
    struct text list, all, last[3] = {{"", 0}, {"", 0}, {"", 0}}, item;

    lists->reads = lists->depth;
    if (!template_list(m->name, "Functor", &list))
        return;
    all = list;
    while (next_item(&list, &item)) {
        last[0] = last[1];
        last[1] = last[2];
        last[2] = item;
    }
    if (is_number(last[0]) && is_number(last[1]) && is_number(last[2])) {
        lists->reads = (uint32_t)strtoul(last[1].at, NULL, 10);
        lists->result = (uint32_t)strtoul(last[2].at, NULL, 10);
    }
    lists->type = result_of(all);
    if (type_of(nth_item(all, 0)) == NULL)
        lists->type.size = 0;
}

static void add_result(struct maker *m, const struct tensor_lists *lists, uint32_t place)
{
    uint32_t offset = m->param->offset + (lists->result * lists->room + place) * 8;
    struct sim_guess_word *word = add_listed(m, offset, SIM_ROLE_WRITE, place);

    word->size = lists->type.size;
    word->kind = lists->type.kind;
    if (lists->type.size)
        add_factor(&word->count, m->param->offset + (lists->depth * lists->room + place) * 8,
                sizeof(int64_t));
}

/* `more`: bytes that the structure has of each tensor beside its addresses and its number of elements. False: unknown. */
static bool add_tensor_lists(
        struct maker *m, struct text arguments, bool has_scalars, uint32_t more)
{
    static const uint32_t most[][5] = {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}};
    struct tensor_lists lists = {.depth = 0};
    struct text item;

    for (struct text rest = arguments; next_item(&rest, &item);)
        if (is_number(item))
            lists.depth = (uint32_t)strtoul(item.at, NULL, 10);
    if (lists.depth == 0 || lists.depth > 5)
        return false;
    lists.room = most[has_scalars][lists.depth - 1] * (is_large(m) ? 7 : 1);
    if (!find_table(m, (uint64_t)lists.room * (lists.depth * 8 + 8 + more)))
        return false;
    read_functor(m, &lists);
    for (uint32_t i = 0; i < lists.depth * lists.room; i++) {
        uint32_t list = i / lists.room, place = i % lists.room;

        (void)add_listed(m, m->param->offset + i * 8,
                list < lists.reads ? SIM_ROLE_READ : SIM_ROLE_TOUCH, place);
        if (list == lists.result && !find(m->name, "LpNorm"))
            add_result(m, &lists, place);
    }
    return true;
}

/*
 * The result of torch.cat, the first parameter: the third begins with the sizes of its dimensions, as many as the third
 * argument of the template says.
 */
static void count_cat(struct maker *m)
{
    struct sim_guess_count *count = &m->guess->words[0].count;
    struct text list;
    uint32_t dims;

    if (!template_list(m->name, "CatArrayBatchedCopy", &list) || m->kernel->params_count < 3)
        return;
    dims = (uint32_t)strtoul(nth_item(list, 2).at, NULL, 10);
    for (uint32_t i = 0; i < dims && i < 4; i++)
        add_factor(count, m->kernel->params[2].offset + i * 4, 4);
}

/* What torch.cat reads: N addresses, of which a row of blocks uses one. */
static void add_cat_inputs(struct maker *m, struct text arguments)
{
    uint32_t room = (uint32_t)strtoul(nth_item(arguments, 2).at, NULL, 10);

    if (room == 0 || room * 8 > m->param->size)
        return;
    m->guess->list = SIM_LIST_Y;
    count_cat(m);
    for (uint32_t i = 0; i < room; i++)
        (void)add_listed(m, m->param->offset + i * 8, SIM_ROLE_READ, i);
}

/* Addresses of results, of which a block uses one; a norm is one element. */
static void add_results(struct maker *m)
{
    const struct type *type = NULL;
    struct text list;

    if (template_list(m->name, "lpnorm_cleanup", &list))
        type = type_of(nth_item(list, 2));
    m->guess->list = SIM_LIST_X;
    for (uint32_t i = 0; i * 8 + 8 <= m->param->size; i++) {
        struct sim_guess_word *word = add_listed(m, m->param->offset + i * 8, SIM_ROLE_WRITE, i);

        word->count.is_known = type != NULL; /* one */
        word->size = type ? type->size : 0;
    }
}

/* A structure whose fields the table names. */
static bool add_fields(struct maker *m)
{
    static const struct {
        const char *name;
        uint32_t params, at, size;
        int factor[4];
    } fields[] = {
#define SOURCE(name, params, at)                   {name, params, at, 0, {-1, -1, -1, -1}},
#define RESULT(name, params, at, size, a, b, c, d) {name, params, at, size, {a, b, c, d}},
#include "tests/sim/base/sim_counts.def"
    };
    bool found = false;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint32_t base = m->param->offset;
        struct sim_guess_word *word;

        if (m->param->size != fields[i].params || !find(m->name, fields[i].name))
            continue;
        found = true;
        if (fields[i].size == 0) {
            (void)add_word(m, base + fields[i].at, SIM_ROLE_READ, false);
            continue;
        }
        word = add_write(m, base + fields[i].at, false, (struct type){.size = fields[i].size});
        for (unsigned k = 0; k < 4 && fields[i].factor[k] >= 0; k++)
            add_factor(&word->count, base + (uint32_t)fields[i].factor[k], 4);
    }
    return found;
}

/* Structures of PyTorch, and Paddle's arrays of addresses. False: it is none of them. */
static bool add_structure(struct maker *m, struct text type)
{
    struct text list;

    if (begins(type, "std::array<char*,") || begins(type, "at::detail::Array<char*,"))
        add_array(m);
    else if (begins(type, "at::native::ReduceOp<"))
        add_reduction(m);
    else if (template_list(type, "gpu_kernel_impl", &list))
        add_closure(m, list);
    else if (begins(type, "at::cuda::detail::TensorInfo<")
            && template_list(type, "TensorInfo", &list))
        add_tensor_info(m, list);
    else if (template_list(type, "PackedTensorAccessor", &list))
        add_accessor(m, list);
    else if (template_list(type, "TensorListMetadata", &list))
        return add_tensor_lists(m, list, false, find(type, "FusedOptimizer") ? 8 : 0);
    else if (template_list(type, "TensorListScalarListMetadata", &list))
        return type_of(nth_item(list, 0))
                && add_tensor_lists(m, list, true, type_of(nth_item(list, 0))->size);
    else if (is_text(type, "at::native::TensorListAddresses"))
        add_results(m);
    else if (begins(type, "common::Array<") && template_list(type, "Array", &list))
        return add_paddle_array(m, list);
    else if (template_list(type, "CatArrInputTensorMetadata", &list))
        add_cat_inputs(m, list);
    else
        return false;
    return true;
}

/*
 * The closure of PyTorch's gather and scatter (2.15): an offset calculator for three tensors, then the addresses of the
 * index, of the result and of the source, with numbers between them. What the calculator does not use is not
 * initialised, so no other word counts. A scatter adds to its result, of which it has the number of elements.
 */
static bool add_gather(struct maker *m)
{
    static const char name[] = "_cuda_scatter_gather_internal_kernel";
    uint32_t at = m->param->offset;
    struct type type = {.size = 1, .kind = SIM_DIGEST_FLOATS};
    struct sim_guess_word *word;
    struct text list;
    bool scatters;

    if (!find(m->name, "_scatter_gather_elementwise_kernel") || m->param->size < 664
            || m->param->size > 720 || !template_list(m->name, name, &list))
        return false;
    scatters = is_text(nth_item(list, 0), "true");
    if (type_of(nth_item(list, 1)))
        type = *type_of(nth_item(list, 1));
    else
        (void)opaque_type(list, &type);
    (void)add_word(m, at + 608, SIM_ROLE_READ, false);
    if (scatters)
        (void)add_word(m, at + 632, SIM_ROLE_READ, false);
    word = add_write(m, at + 632, false, type);
    if (scatters) {
        word->count = (struct sim_guess_count){0};
        add_factor(&word->count, at + 648, sizeof(int64_t));
    }
    (void)add_word(m, at + 656, SIM_ROLE_READ, false);
    return true;
}

/*
 * The closure of PyTorch's index (2.15): an offset calculator for three tensors, result, source, the number of indices,
 * their addresses.
 */
static bool add_index(struct maker *m)
{
    uint32_t at = m->param->offset + 608;
    struct type type;

    if (!find(m->name, "index_elementwise_kernel") || !find(m->name, "::index_kernel_impl<")
            || m->param->size != 1240 || !opaque_type(m->name, &type))
        return false;
    (void)add_write(m, at, false, type);
    (void)add_word(m, at + 8, SIM_ROLE_READ, false);
    (void)add_word(m, at + 24, SIM_ROLE_READ, false); /* the first index */
    return true;
}

/*
 * The closure of PyTorch's flip: an offset calculator for two tensors, whose strides may be below zero for the first,
 * then result and source.
 */
static bool add_flip(struct maker *m)
{
    uint32_t at = m->param->offset + 504;
    struct sim_guess_word *word;
    struct type type;

    if (!find(m->name, "index_elementwise_kernel") || !find(m->name, "::flip_kernel_impl<")
            || m->param->size != 520 || !opaque_type(m->name, &type))
        return false;
    word = add_write(m, at, false, type);
    word->calculator = m->param->offset;
    word->tensors = 2;
    (void)add_word(m, at + 8, SIM_ROLE_READ, false);
    return true;
}

/*
 * The closure of PyTorch's random kernels: the result's address comes first, or behind an offset calculator for one tensor.
 * `distribution_nullary_kernel` has the type of an element as its first argument.
 */
static bool add_random(struct maker *m)
{
    const struct type *type;
    struct text list;

    if (!find(m->name, "distribution_elementwise_grid_stride_kernel") || m->param->size < 16
            || m->param->size > 440 || m->param - m->kernel->params != 3
            || !template_list(m->name, "distribution_nullary_kernel", &list))
        return false;
    type = type_of(nth_item(list, 0));
    (void)add_write(m, m->param->offset + (m->param->size > 404 ? 408 : 0), false,
            type ? *type : (struct type){.size = 1});
    return true;
}

/* One parameter whose type is known by name. */
static void add_param(struct maker *m, struct text type)
{
    const struct type *known = type_of(type);

    if (type.length && type.at[type.length - 1] == '*') {
        add_pointer(m, type);
    } else if (known) {
        add_word(m, m->param->offset, SIM_ROLE_NUMBER, true)->size =
                known->size < m->param->size ? known->size : m->param->size;
    } else if (begins(type, "at::native::FillFunctor<") && m->param->size <= 16) {
        m->guess->fill_offset = (int)m->param->offset;
        m->guess->fill_size = m->param->size;
    } else if (!add_fields(m) && !add_gather(m) && !add_index(m) && !add_flip(m) && !add_random(m)
            && !add_structure(m, type)) {
        add_words(m, m->param->offset, m->param->offset + m->param->size);
    }
}

static bool guess_by_name(struct maker *m)
{
    struct text list, rest, type;
    unsigned count = 0;

    if (!parameter_list(m->name.at, &list))
        return false;
    for (rest = list; next_item(&rest, &type);)
        count++;
    if (count != m->kernel->params_count)
        return false;
    m->parameters = list;
    m->param = m->kernel->params;
    for (rest = list; next_item(&rest, &type); m->param++)
        add_param(m, type);
    return true;
}

/* No type is known. */
static void guess_by_size(struct maker *m)
{
    for (unsigned i = 0; i < m->kernel->params_count; i++) {
        const struct sim_param *param = &m->kernel->params[i];

        m->param = param;
        if (param->size == 8)
            (void)add_word(m, param->offset, SIM_ROLE_TOUCH, param->is_pointer);
        else
            add_words(m, param->offset, param->offset + param->size);
    }
}

char *sim_guess_name(const char *name)
{
    demangle_fn *entry = atomic_load(&demangle);
    int status = 0;

    return entry && strncmp(name, "_Z", 2) == 0 ? entry(name, NULL, NULL, &status) : NULL;
}

void sim_guess_make(const struct sim_kernel *kernel, struct sim_guess *ret_guess)
{
    char *text = sim_guess_name(kernel->name);
    struct maker m = {.kernel = kernel, .guess = ret_guess};

    *ret_guess = (struct sim_guess){.fill_offset = -1};
    if (text)
        m.name = (struct text){text, strlen(text)};
    ret_guess->has_types = text && guess_by_name(&m);
    if (!ret_guess->has_types) {
        ret_guess->words_count = 0;
        guess_by_size(&m);
    }
    free(text);
}
