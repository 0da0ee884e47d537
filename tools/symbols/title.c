/* SPDX-License-Identifier: MIT */
#include "tools/symbols/title.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tracker/hints/hintfile.h"

#define TITLE_PARTS  16 /* most frames of one title */
#define TITLE_ROUNDS 64 /* most frames that are tried */
#define WAY_PARTS    3

enum kind {
    KIND_PROGRAM_PYTHON,
    KIND_PROGRAM_NATIVE,
    KIND_PACKAGE_PYTHON,
    KIND_FRAMEWORK_PYTHON,
    KIND_FRAMEWORK_NATIVE,
    KIND_LIBRARY, /* a framework's code without a name */
    KINDS,
    KIND_NONE,
};

/* Packages through which a program allocates, and which a title should not name. */
static const char *const framework_packages[] = {"torch", "torchgen", "functorch", "triton",
        "paddle", "jax", "jaxlib", "tensorflow", "keras", "cupy", "cupyx", "cupy_backends", "numba",
        "numba_cuda", "pycuda", "pytools", "rmm", "cuda", "tinygrad", "numpy", "lightning",
        "pytorch_lightning", "lightning_fabric", "accelerate", "deepspeed"};

/* Libraries of frameworks and interpreters that are not among installed packages. */
static const char *const framework_libraries[] = {"libtorch*", "libc10*", "libcaffe2*", "libshm*",
        "libpaddle*", "libphi*", "libcommon.so*", "libtensorflow*", "libjax*", "xla_*", "librmm*",
        "libffi*", "python*", "libpython*", "pypy*", "libpypy*", "libgomp*", "libstdc++*",
        "libgcc_s*", "libtcmalloc*", "libjemalloc*"};

/* The path after the last folder of installed packages, NULL if the file is in none. */
static const char *inside_packages(const char *file)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};

    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        const char *found = strstr(file, folders[i]);
        if (found)
            return found + strlen(folders[i]);
    }
    return NULL;
}

static bool is_framework_package(const char *inside)
{
    size_t length = strcspn(inside, "/.");

    for (size_t i = 0; i < sizeof(framework_packages) / sizeof(*framework_packages); i++)
        if (strlen(framework_packages[i]) == length
                && strncmp(framework_packages[i], inside, length) == 0)
            return true;
    return false;
}

/* Python's library, and names that it makes up. Typed code, or an argument, is the program's. */
static bool is_of_python(const char *file)
{
    if (*file == '<')
        return strcmp(file, "<string>") != 0 && strcmp(file, "<stdin>") != 0
                && !hintfile_glob("<ipython-*", file);
    return strstr(file, "/lib/python3") || strstr(file, "/lib64/python3")
            || strstr(file, "/torchinductor_");
}

/* torch's functions that call each module's forward. */
static bool is_plumbing(const char *function)
{
    const char *dot = strrchr(function, '.');
    const char *name = dot ? dot + 1 : function;

    return strcmp(name, "_call_impl") == 0 || strcmp(name, "_wrapped_call_impl") == 0;
}

static enum kind kind_of_python(const char *function, const char *file)
{
    const char *inside = inside_packages(file);

    if (inside && is_plumbing(function))
        return KIND_NONE;
    if (inside)
        return is_framework_package(inside) ? KIND_FRAMEWORK_PYTHON : KIND_PACKAGE_PYTHON;
    return is_of_python(file) ? KIND_FRAMEWORK_PYTHON : KIND_PROGRAM_PYTHON;
}

bool title_is_program(const char *function, const char *file)
{
    return kind_of_python(function, file) == KIND_PROGRAM_PYTHON;
}

static bool is_framework_library(const char *path)
{
    const char *name = filename_of(path);

    if (inside_packages(path) || strstr(path, "/lib/python3") || strstr(path, "/lib64/python3"))
        return true;
    for (size_t i = 0; i < sizeof(framework_libraries) / sizeof(*framework_libraries); i++)
        if (hintfile_glob(framework_libraries[i], name))
            return true;
    return false;
}

/* "module+0x1234", "?+0x1234" and "(no name)" stand for a function without a name (symbols.h). */
static bool has_name(const struct symbols_line *line)
{
    const char *module = *line->module ? filename_of(line->module) : "?";
    size_t length = strlen(module);

    if (line->file)
        return *line->function != '(' || strcmp(line->function, "(no name)") != 0;
    return strncmp(line->function, module, length) != 0
            || strncmp(line->function + length, "+0x", 3) != 0;
}

/* The length of "operator()" at the beginning, without its arguments; 0: it is no operator. */
static size_t operator_length(const char *at)
{
    static const char word[] = "operator";
    /* Operators that look like brackets, the longest first. */
    static const char *const signs[] = {
            "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "<", ">", ""};
    size_t length = sizeof(word) - 1;
    size_t i = 0;

    if (strncmp(at, word, length) != 0 || at[length] == '_' || isalnum((unsigned char)at[length]))
        return 0;
    while (strncmp(at + length, signs[i], strlen(signs[i])) != 0)
        i++;
    return length + strlen(signs[i]);
}

/* Length of an empty beginning: "(anonymous namespace)::", or "decltype(" that starts a word. */
static size_t empty_length(const char *at, bool begins)
{
    static const char anonymous[] = "(anonymous namespace)::";
    static const char type_of[] = "decltype";

    if (strncmp(at, anonymous, sizeof(anonymous) - 1) == 0)
        return sizeof(anonymous) - 1;
    if (!begins || strncmp(at, type_of, sizeof(type_of) - 1) != 0 || !strchr(at, '('))
        return 0;
    return (size_t)(strchr(at, '(') - at) + 1;
}

/* "at::addmm(at::Tensor const&)+0x12" -> "at::addmm"; without templates and results, too. */
static char *short_name(const char *function)
{
    char *out = vec_new(strlen(function) + 1, 1);
    size_t n = 0;
    unsigned depth = 0;
    bool is_operator = false;

    for (const char *s = function; *s; s++) {
        bool begins = depth == 0 && (s == function || s[-1] == ':' || s[-1] == ' ');
        size_t sign = begins ? operator_length(s) : 0;
        size_t empty = empty_length(s, begins);
        if (sign) {
            memcpy(out + n, s, sign);
            n += sign;
            s += sign - 1;
            is_operator = true;
        } else if (empty) {
            s += empty - 1;
            depth += *s == '(';
        } else if (*s == '<' || (depth && *s == '(')) {
            depth++;
        } else if (depth) {
            depth -= *s == '>' || *s == ')';
        } else if (*s == '(' || *s == '{' || strncmp(s, "+0x", 3) == 0) {
            if (n) /* else the rest has no other name */
                break;
        } else if (*s == ' ' && !is_operator) {
            n = 0; /* a template's name begins with its result type */
        } else if (*s != ' ' || s[1] != '<') {
            out[n++] = *s;
        }
    }
    while (n && out[n - 1] == ':')
        n--;
    out[n] = '\0';
    return out;
}

/* Whether the short name matches one of these. */
static bool is_named(const char *function, const char *const *globs, size_t count)
{
    char *name = short_name(function);
    bool found = false;

    for (size_t i = 0; i < count && !found; i++)
        found = hintfile_glob(globs[i], name);
    free(name);
    return found;
}

/* A function through which all operators of a framework allocate: it would be each row's title. */
static bool is_allocator(const struct symbols_line *line)
{
    static const char *const names[] = {"c10::*", "at::detail::*", "at::empty*",
            "at::native::empty*", "at::_ops::empty*", "at::create_out*", "at::TensorIterator*",
            "at::wrapper_*_empty*", "*::set_output_*", "*::maybe_create_proxy*"};

    return hintfile_glob("libc10*", filename_of(line->module))
            || is_named(line->function, names, sizeof(names) / sizeof(*names));
}

/* For a function of an unknown library, as another tool named it. */
static bool is_framework_function(const char *function)
{
    static const char *const names[] = {"at::*", "c10::*", "torch::*", "caffe2::*", "pybind11::*",
            "std::*", "THP*", "cfunction_*", "ffi_*", "execute_native_thread_routine"};

    return is_named(function, names, sizeof(names) / sizeof(*names));
}

static enum kind title_kind_of(const struct symbols_line *line)
{
    if (line->is_python)
        return kind_of_python(line->function, line->file);
    if (!line->is_ours)
        return KIND_NONE;
    if (*line->module ? !is_framework_library(line->module)
                      : !is_framework_function(line->function))
        return KIND_PROGRAM_NATIVE;
    return has_name(line) && !is_allocator(line) ? KIND_FRAMEWORK_NATIVE : KIND_LIBRARY;
}

/* One frame in the form of a title. */
static char *name_line(const struct symbols_line *line, enum kind kind)
{
    const char *module = filename_of(line->module);

    if (kind == KIND_LIBRARY && *module)
        return vec_text(module);
    if (kind == KIND_FRAMEWORK_NATIVE || kind == KIND_LIBRARY)
        return short_name(line->function);
    if (line->file)
        return vec_format("%s %s:%u", line->function, filename_of(line->file), line->line);
    return vec_format("%s%s%s", line->function, *module ? " " : "", module);
}

/* The frames of a stack that may be in its title, the best first. */
struct part {
    char *text;
    enum kind kind;
    const struct symbols_line *line; /* NULL: no stack */
};

struct parts {
    struct part *part;
    size_t count, room;
};

static void add_kind(
        struct parts *parts, const struct symbols_line *lines, size_t count, enum kind kind)
{
    for (size_t i = 0; i < count; i++) {
        if (title_kind_of(&lines[i]) != kind)
            continue;
        VEC_PUSH(parts->part, parts->count, parts->room) =
                (struct part){name_line(&lines[i], kind), kind, &lines[i]};
    }
}

static struct parts parts_of(struct symbols *symbols, uint32_t stack)
{
    struct parts parts = {0};
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    for (enum kind kind = 0; kind < KINDS; kind++)
        add_kind(&parts, lines, count, kind);
    if (parts.count == 0) {
        enum kind kind = count && *lines[0].module ? KIND_LIBRARY : KIND_PROGRAM_NATIVE;
        char *text = count ? name_line(&lines[0], kind) : vec_text("(no stack)");
        VEC_PUSH(parts.part, parts.count, parts.room) =
                (struct part){text, KIND_NONE, count ? &lines[0] : NULL};
    }
    return parts;
}

/* A title that is being built. */
struct row {
    struct parts parts;
    char *title;
    size_t used;              /* parts up to here were tried */
    size_t told[TITLE_PARTS]; /* the parts in the title */
    unsigned frames;
    uint32_t number;
};

static const char *part_at(const struct row *row, size_t at)
{
    return at < row->parts.count ? row->parts.part[at].text : "";
}

static void title_extend(struct row *row, size_t at)
{
    if (at < row->parts.count) {
        const char *link = row->parts.part[at].kind == row->parts.part[0].kind ? " < " : ", ";
        char *longer = vec_format("%s%s%s", row->title, link, row->parts.part[at].text);
        free(row->title);
        row->title = longer;
        row->told[row->frames++] = at;
    }
    row->used = at + 1;
}

static int by_title(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    int r = strcmp(x->title, y->title);

    return r ? r : vec_order(x->number, y->number, 0);
}

/* The first untried part in which rows of one title differ; SIZE_MAX: none. */
static size_t title_find_difference(const struct row *rows, size_t count)
{
    size_t longest = 0;

    for (size_t i = 0; i < count; i++)
        if (rows[i].parts.count > longest)
            longest = rows[i].parts.count;
    for (size_t at = rows[0].used; at < longest; at++)
        for (size_t i = 1; i < count; i++)
            if (strcmp(part_at(&rows[0], at), part_at(&rows[i], at)) != 0)
                return at;
    return SIZE_MAX;
}

/* Adds one more frame to each of the rows that share a title, if that distinguishes any of them. */
static bool title_tell_apart(struct row *rows, size_t count)
{
    bool changed = false;
    size_t i = 0;

    VEC_SORT(rows, count, by_title);
    while (i < count) {
        size_t end = i + 1;
        while (end < count && strcmp(rows[i].title, rows[end].title) == 0)
            end++;
        size_t at = end - i > 1 && rows[i].frames < TITLE_PARTS
                ? title_find_difference(&rows[i], end - i)
                : SIZE_MAX;
        for (size_t k = i; at != SIZE_MAX && k < end; k++)
            title_extend(&rows[k], at);
        changed = changed || at != SIZE_MAX;
        i = end;
    }
    return changed;
}

/* Wrappers: how many of the program's own frames all rows share before one that they do not. */
static size_t count_wrappers(const struct row *rows, size_t count)
{
    enum kind kind = rows[0].parts.part[0].kind;

    for (size_t at = 0; kind <= KIND_PROGRAM_NATIVE && at < rows[0].parts.count; at++) {
        bool differ = false;
        for (size_t i = 0; i < count; i++) {
            if (at >= rows[i].parts.count || rows[i].parts.part[at].kind != kind)
                return 0;
            differ = differ || strcmp(part_at(&rows[i], at), part_at(&rows[0], at)) != 0;
        }
        if (differ)
            return at;
    }
    return 0;
}

static struct row *rows_new(
        struct symbols *symbols, const void *from, size_t stride, size_t offset, size_t count)
{
    struct row *rows = vec_new(count, sizeof(*rows));

    for (size_t i = 0; i < count; i++) {
        uint32_t stack;
        memcpy(&stack, (const char *)from + i * stride + offset, sizeof(stack));
        rows[i] =
                (struct row){.parts = parts_of(symbols, stack), .frames = 1, .number = (uint32_t)i};
    }
    size_t first = count ? count_wrappers(rows, count) : 0;
    for (size_t i = 0; i < count; i++) {
        rows[i].title = vec_text(rows[i].parts.part[first].text);
        rows[i].used = first + 1;
        rows[i].told[0] = first;
    }
    return rows;
}

/* The titles of the rows, in their first order. */
static char **rows_end(struct row *rows, size_t count)
{
    char **titles = vec_new(count, sizeof(*titles));

    for (size_t i = 0; i < count; i++) {
        titles[rows[i].number] = rows[i].title;
        for (size_t k = 0; k < rows[i].parts.count; k++)
            free(rows[i].parts.part[k].text);
        free(rows[i].parts.part);
    }
    free(rows);
    return titles;
}

static struct row *rows_apart(
        struct symbols *symbols, const void *from, size_t stride, size_t offset, size_t count)
{
    struct row *rows = rows_new(symbols, from, stride, offset, count);

    for (size_t round = 0; round < TITLE_ROUNDS && title_tell_apart(rows, count); round++)
        ;
    return rows;
}

char **title_rows(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    return rows_end(rows_apart(symbols, rows, stride, offset, count), count);
}

char **title_ways(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    struct row *told = rows_new(symbols, rows, stride, offset, count);

    for (size_t i = 0; i < count; i++)
        while (told[i].frames < WAY_PARTS && told[i].used < told[i].parts.count
                && told[i].parts.part[told[i].used].kind == told[i].parts.part[0].kind)
            title_extend(&told[i], told[i].used);
    return rows_end(told, count);
}

void title_done(char **titles, size_t count)
{
    for (size_t i = 0; titles && i < count; i++)
        free(titles[i]);
    free((void *)titles);
}

/* "libown+0x12": the library's name, and the offset. */
static char *word_without_name(const struct symbols_line *line)
{
    const char *name = filename_of(line->module);
    const char *suffix = strstr(name, ".so");
    const char *place = strrchr(line->function, '+');
    int length = suffix && suffix > name ? (int)(suffix - name) : (int)strlen(name);

    if (!*name) /* an address of one run */
        return vec_text("");
    return vec_format("%.*s%s", length, name, place ? place : "");
}

/* "" for a frame outside the program. */
static char *title_word_of(const struct part *part)
{
    const struct symbols_line *line = part->line;

    if (!line || part->kind > KIND_PROGRAM_NATIVE)
        return vec_text("");
    if (line->is_python) {
        const char *dot = strrchr(line->function, '.'); /* in Class.method */
        return vec_text(dot && dot[1] ? dot + 1 : line->function);
    }
    return has_name(line) ? short_name(line->function) : word_without_name(line);
}

static char *title_words_of(const struct row *row)
{
    char *words = vec_text("");

    for (unsigned i = 0; i < row->frames; i++) {
        char *word = title_word_of(&row->parts.part[row->told[i]]);
        char *longer = vec_format("%s%s%s", words, *words && *word ? "-" : "", word);
        free(words);
        free(word);
        words = longer;
    }
    return words;
}

char **title_words(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count)
{
    struct row *told = rows_apart(symbols, rows, stride, offset, count);

    for (size_t i = 0; i < count; i++) {
        free(told[i].title);
        told[i].title = title_words_of(&told[i]);
    }
    return rows_end(told, count);
}
