/* SPDX-License-Identifier: MIT */
#include "tools/symbols/framekind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tracker/hints/hintfile.h"

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

static enum framekind kind_of_python(const char *function, const char *file)
{
    const char *inside = inside_packages(file);

    if (inside && is_plumbing(function))
        return FRAMEKIND_NONE;
    if (inside)
        return is_framework_package(inside) ? FRAMEKIND_FRAMEWORK_PYTHON : FRAMEKIND_PACKAGE_PYTHON;
    return is_of_python(file) ? FRAMEKIND_FRAMEWORK_PYTHON : FRAMEKIND_PROGRAM_PYTHON;
}

bool framekind_is_program(const char *function, const char *file)
{
    return kind_of_python(function, file) == FRAMEKIND_PROGRAM_PYTHON;
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
bool framekind_has_name(const struct symbols_line *line)
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
char *framekind_short_name(const char *function)
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
    char *name = framekind_short_name(function);
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

bool framekind_is_workspace(const struct symbols_line *line)
{
    /* of 2.6 and later, and of earlier ones */
    static const char *const names[] = {"at::cuda::allocateCUDABlasWorkspace",
            "at::cuda::getNewWorkspace", "at::cuda::getCUDABlasLtWorkspace"};

    return !line->is_python && strstr(line->function, "Workspace")
            && is_named(line->function, names, sizeof(names) / sizeof(*names));
}

/* For a function of an unknown library, as another tool named it. */
static bool is_framework_function(const char *function)
{
    static const char *const names[] = {"at::*", "c10::*", "torch::*", "caffe2::*", "pybind11::*",
            "std::*", "THP*", "cfunction_*", "ffi_*", "execute_native_thread_routine"};

    return is_named(function, names, sizeof(names) / sizeof(*names));
}

enum framekind framekind_of(const struct symbols_line *line)
{
    if (line->is_python)
        return kind_of_python(line->function, line->file);
    if (!line->is_ours)
        return FRAMEKIND_NONE;
    if (*line->module ? !is_framework_library(line->module)
                      : !is_framework_function(line->function))
        return FRAMEKIND_PROGRAM_NATIVE;
    return framekind_has_name(line) && !is_allocator(line) ? FRAMEKIND_FRAMEWORK_NATIVE
                                                           : FRAMEKIND_LIBRARY;
}

/* One frame in the form of a title. */
char *framekind_text(const struct symbols_line *line, enum framekind kind)
{
    const char *module = filename_of(line->module);

    if (kind == FRAMEKIND_LIBRARY && *module)
        return vec_text(module);
    if (kind == FRAMEKIND_FRAMEWORK_NATIVE || kind == FRAMEKIND_LIBRARY)
        return framekind_short_name(line->function);
    if (line->file)
        return vec_format("%s %s:%u", line->function, filename_of(line->file), line->line);
    return vec_format("%s%s%s", line->function, *module ? " " : "", module);
}

char *framekind_origin(const struct symbols_line *line)
{
    const char *path = symbols_line_file(line);
    const char *inside = inside_packages(path);
    const char *name = filename_of(path);

    if (inside)
        return vec_format("%.*s", (int)strcspn(inside, "/."), inside);
    if (line->is_python ? is_of_python(path)
                        : hintfile_glob("python*", name) || hintfile_glob("libpython*", name)
                            || strstr(path, "/lib/python3") || strstr(path, "/lib64/python3"))
        return vec_text("python");
    if (line->is_python || !*line->module)
        return vec_text("");
    name = filename_of(line->module);
    const char *suffix = strstr(name, ".so");
    return vec_format("%.*s", suffix ? (int)(suffix - name) : (int)strlen(name), name);
}
