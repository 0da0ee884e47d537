/* SPDX-License-Identifier: MIT */
/* covers: title.c */
#include "tests/check.h"

#include <stdlib.h>

#include "tests/unit/tools/story.h"
#include "tools/symbols/symcache.h"
#include "tools/symbols/title.h"

/* Native frames by their offsets in the modules below; names come from a bundle's text. */
enum place {
    END,
    MALLOC,
    NAMELESS,
    ADDMM,
    GELU,
    EMPTY,
    RUNTIME,
    CALLED,
    LOOP,
    OWN,
    OWN_OUTER,
    FFI,
    START,
    FILL,
    LAMBDA,
    CALL,
    SHIFT,
    MAKER,
    PART,
    NO_NAME,
    OWN_NAMELESS,
    NO_FILE,
    TORCH_CALL,
    WORKSPACE,
    WORKSPACE_OF_OLD,
    WORKSPACE_OF_OWN
};

static const struct {
    const char *module;
    bool is_program;
} modules[] = {{"/e/lib/python3.12/site-packages/torch/lib/libc10_cuda.so.2.6", true},
        {"/usr/lib/libtorch_cuda.so", true}, {"/usr/lib/libcudart.so.12", false},
        {"/usr/bin/python3.12", true}, {"/home/me/trainer", true}, {"/usr/lib/libffi.so.8", true},
        {"/home/me/libown.so.3", true}};

static const struct trace_frame places[] = {[MALLOC] = {0, 0x10},
        [NAMELESS] = {0, 0x6dc7f},
        [ADDMM] = {1, 0x20},
        [GELU] = {1, 0x30},
        [EMPTY] = {1, 0x40},
        [RUNTIME] = {2, 0x10},
        [CALLED] = {3, 0x10},
        [LOOP] = {3, 0x20},
        [OWN] = {4, 0x10},
        [OWN_OUTER] = {4, 0x20},
        [FFI] = {5, 0x10},
        [START] = {4, 0x30},
        [FILL] = {4, 0x40},
        [LAMBDA] = {4, 0x50},
        [CALL] = {4, 0x60},
        [SHIFT] = {4, 0x70},
        [MAKER] = {4, 0x80},
        [PART] = {4, 0x90},
        [NO_NAME] = {4, 0xa0},
        [OWN_NAMELESS] = {6, 0x12},
        [NO_FILE] = {TRACE_NONE, 0x7f0012},
        [TORCH_CALL] = {1, 0x50},
        [WORKSPACE] = {1, 0x60},
        [WORKSPACE_OF_OLD] = {1, 0x70},
        [WORKSPACE_OF_OWN] = {4, 0xb0}};

static const char names[] =
        "kedge-symbols\t1\n"
        "m\t-\t1\t/e/lib/python3.12/site-packages/torch/lib/libc10_cuda.so.2.6\t\n"
        "f\t10\nl\tc10::cuda::(anonymous namespace)::mallocAsync(void**)+0x1f6\t\t0\n"
        "m\t-\t2\t/usr/lib/libtorch_cuda.so\t\n"
        "f\t20\nl\tvoid at::native::(anonymous namespace)::addmm<float, 4>(at::Tensor "
        "const&)+0x12\t\t0\n"
        "f\t30\nl\tat::native::gelu(at::Tensor const&)\t\t0\n"
        "f\t40\nl\tat::detail::empty_cuda(c10::IntArrayRef)+0x2\t\t0\n"
        "f\t50\nl\tstd::vector<int> at::native::Op::operator()<int>(int)+0x3\t\t0\n"
        "f\t60\nl\tat::cuda::allocateCUDABlasWorkspace(unsigned long)+0x16\t\t0\n"
        "f\t70\nl\tat::cuda::getNewWorkspace()+0x28\t\t0\n"
        "m\t-\t4\t/usr/bin/python3.12\t\n"
        "f\t10\nl\t_PyObject_Call\t\t0\n"
        "f\t20\nl\t_PyEval_EvalFrameDefault\t\t0\n"
        "m\t-\t5\t/home/me/trainer\t\n"
        "f\t10\nl\tallocate\t/src/trainer.c\t65\n"
        "f\t20\nl\tunused_input\t/src/trainer.c\t89\n"
        "f\t40\nl\tvoid ns::fill<float, 4>(ns::Tensor<float> const&)\t/src/t.cc\t3\n"
        "f\t50\nl\tmain::{lambda(int)#1}::operator()(int) const\t/src/t.cc\t9\n"
        "f\t60\nl\tdecltype (f(1)) ns::Op<int>::operator()<int>(int)\t/src/t.cc\t12\n"
        "f\t70\nl\tns::Out& ns::operator<< <char>(ns::Out&, char)\t/src/t.cc\t15\n"
        "f\t80\nl\t(anonymous namespace)::make_operator(int)\t/src/t.cc\t18\n"
        "f\t90\nl\thelper.part.0+0x12\t\t0\n"
        "f\ta0\nl\t(no name)\t/src/t.cc\t21\n"
        "f\tb0\nl\tmakeWorkspace\t/src/t.cc\t24\n";

#define PACKAGES "/e/lib/python3.12/site-packages"

static const struct trace_pyframe train = {"step", "/home/me/train.py", 60, true, false, 0};
static const struct trace_pyframe attend = {"Block.attend", "/home/me/gpt.py", 28, false, false, 0};
static const struct trace_pyframe block = {"Block.forward", "/home/me/gpt.py", 33, false, false, 0};
static const struct trace_pyframe llama = {
        "Llama.forward", PACKAGES "/transformers/llama.py", 155, false, false, 0};
static const struct trace_pyframe mistral = {
        "Mistral.forward", PACKAGES "/transformers/mistral.py", 90, false, false, 0};
static const struct trace_pyframe linear = {
        "Linear.forward", PACKAGES "/torch/nn/linear.py", 125, false, false, 0};
static const struct trace_pyframe layer_norm = {"layer_norm",
        "/usr/lib/python3/dist-packages/torch/nn/functional.py", 2900, false, false, 0};
static const struct trace_pyframe call_impl = {
        "Module._call_impl", PACKAGES "/torch/nn/modules/module.py", 1747, false, false, 0};
static const struct trace_pyframe thread = {
        "run", "/usr/lib/python3.12/threading.py", 982, false, false, 0};
static const struct trace_pyframe frozen = {"_find", "<frozen importlib>", 1, false, false, 0};
static const struct trace_pyframe typed = {"<module>", "<string>", 1, true, false, 0};
static const struct trace_pyframe ours = {
        "enter", "/opt/kedge/python/_kedge_torch.py", 90, false, false, 0};

#define NATIVE(...)      \
    (const enum place[]) \
    {                    \
        __VA_ARGS__, END \
    }
#define PYTHON(...)                       \
    (const struct trace_pyframe *const[]) \
    {                                     \
        __VA_ARGS__, NULL                 \
    }

struct bench {
    struct trace *trace;
    struct symcache *cache;
    struct symbols *symbols;
    uint32_t stacks[8];
    size_t count;
};

static struct bench bench_begin(void)
{
    struct bench bench = {.trace = trace_new()};
    char *why = NULL;

    for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
        struct trace_module module = {.path = (char *)(uintptr_t)modules[i].module,
                .identity = i + 1,
                .is_program = modules[i].is_program};
        (void)trace_add_module(bench.trace, &module);
    }
    bench.cache = symcache_read(names, sizeof(names) - 1, &why);
    REQUIRE(bench.cache != NULL);
    bench.trace->names = bench.cache;
    return bench;
}

static void bench_end(struct bench *bench)
{
    symbols_free(bench->symbols);
    symcache_free(bench->cache);
    trace_free(bench->trace);
}

/* `python` may be NULL. */
static void add(struct bench *bench, const enum place *native,
        const struct trace_pyframe *const *python, bool ambient)
{
    struct trace_frame frames[8];
    struct trace_pyframe pyframes[8];
    uint32_t count = 0;
    uint32_t pycount = 0;

    for (; native[count] != END; count++)
        frames[count] = places[native[count]];
    uint32_t stack = trace_add_stack(bench->trace, frames, count, false);
    for (; python && python[pycount]; pycount++)
        pyframes[pycount] = *python[pycount];
    if (pycount)
        trace_set_python(bench->trace, stack, pyframes, pycount, ambient);
    bench->stacks[bench->count++] = stack;
}

/* The titles of what was added, each in a line. */
static char *titles(struct bench *bench)
{
    static char text[2048];
    size_t used = 0;

    bench->symbols = symbols_new(bench->trace);
    char **rows =
            title_rows(bench->symbols, bench->stacks, sizeof(bench->stacks[0]), 0, bench->count);
    for (size_t i = 0; i < bench->count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", rows[i]);
    title_done(rows, bench->count);
    return text;
}

TEST(a_row_is_called_by_the_programs_own_python)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(RUNTIME, NAMELESS, MALLOC, ADDMM, LOOP), PYTHON(&attend, &block, &train),
            false);
    add(&bench, NATIVE(MALLOC, ADDMM, LOOP), PYTHON(&linear, &call_impl, &block, &train), false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&frozen, &thread, &train), false);
    add(&bench, NATIVE(MALLOC, FFI, CALLED, LOOP), PYTHON(&ours, &typed), false);
    CHECK_STR_EQ(titles(&bench),
            "Block.attend gpt.py:28\n"
            "Block.forward gpt.py:33\n"
            "step train.py:60\n"
            "<module> <string>:1\n");
    bench_end(&bench);
}

TEST(a_program_without_python_is_called_by_its_own_function)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(RUNTIME, OWN_OUTER), NULL, false);
    add(&bench, NATIVE(MALLOC, ADDMM, OWN, OWN_OUTER), NULL, false);
    CHECK_STR_EQ(titles(&bench), "unused_input trainer.c:89\nallocate trainer.c:65\n");
    bench_end(&bench);
}

TEST(helpers_of_the_program_are_told_apart_by_their_callers)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(OWN, OWN_OUTER), NULL, false);
    add(&bench, NATIVE(OWN, START), NULL, false);
    add(&bench, NATIVE(LOOP), PYTHON(&attend, &block), false);
    add(&bench, NATIVE(LOOP), PYTHON(&attend, &train), false);
    CHECK_STR_EQ(titles(&bench),
            "allocate trainer.c:65 < unused_input trainer.c:89\n"
            "allocate trainer.c:65 < trainer+0x30 trainer\n"
            "Block.attend gpt.py:28 < Block.forward gpt.py:33\n"
            "Block.attend gpt.py:28 < step train.py:60\n");
    bench_end(&bench);
}

/* What all rows were asked for through says nothing of any of them. */
TEST(a_wrapper_that_all_rows_share_is_skipped)
{
    struct bench native = bench_begin();
    struct bench python = bench_begin();

    add(&native, NATIVE(MALLOC, OWN, OWN_OUTER), NULL, false);
    add(&native, NATIVE(OWN, START), NULL, false);
    CHECK_STR_EQ(titles(&native), "unused_input trainer.c:89\ntrainer+0x30 trainer\n");
    bench_end(&native);
    add(&python, NATIVE(LOOP), PYTHON(&attend, &block, &train), false);
    add(&python, NATIVE(LOOP), PYTHON(&attend, &block, &typed), false);
    CHECK_STR_EQ(titles(&python), "step train.py:60\n<module> <string>:1\n");
    bench_end(&python);
}

TEST(a_wrapper_stays_where_a_row_has_nothing_else)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(OWN, OWN_OUTER), NULL, false);
    add(&bench, NATIVE(OWN), NULL, false);
    CHECK_STR_EQ(titles(&bench),
            "allocate trainer.c:65 < unused_input trainer.c:89\nallocate trainer.c:65\n");
    bench_end(&bench);
}

/* A trainer of one line that calls a package: what tells its rows apart is the package's code, then the framework's. */
TEST(rows_of_one_own_line_are_told_apart_by_what_it_called)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, ADDMM, LOOP), PYTHON(&llama, &train), false);
    add(&bench, NATIVE(MALLOC, ADDMM, LOOP), PYTHON(&mistral, &train), false);
    add(&bench, NATIVE(MALLOC, ADDMM, LOOP), PYTHON(&linear, &call_impl, &block, &train), false);
    add(&bench, NATIVE(MALLOC, ADDMM, LOOP), PYTHON(&layer_norm, &call_impl, &block, &train),
            false);
    CHECK_STR_EQ(titles(&bench),
            "step train.py:60, Llama.forward llama.py:155\n"
            "step train.py:60, Mistral.forward mistral.py:90\n"
            "Block.forward gpt.py:33, Linear.forward linear.py:125\n"
            "Block.forward gpt.py:33, layer_norm functional.py:2900\n");
    bench_end(&bench);
}

/* A backward's thread has the Python of the thread that waits for it: one line for all. */
TEST(a_backwards_rows_are_told_apart_by_their_operators)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, EMPTY, ADDMM), PYTHON(&train), true);
    add(&bench, NATIVE(MALLOC, EMPTY, GELU), PYTHON(&train), true);
    CHECK_STR_EQ(titles(&bench),
            "step train.py:60, at::native::addmm\nstep train.py:60, at::native::gelu\n");
    bench_end(&bench);
}

TEST(a_framework_alone_is_called_by_its_operator_and_never_by_an_address)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(RUNTIME, NAMELESS, MALLOC, EMPTY, ADDMM, CALLED), NULL, false);
    add(&bench, NATIVE(RUNTIME, NAMELESS, MALLOC), NULL, false);
    add(&bench, NATIVE(RUNTIME), NULL, false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&linear), false);
    CHECK_STR_EQ(titles(&bench),
            "at::native::addmm\n"
            "libc10_cuda.so.2.6\n"
            "libcudart.so.12\n"
            "Linear.forward linear.py:125\n");
    bench_end(&bench);
}

/* Wherever the first matrix product of a thread is; two of them are one way. */
TEST(a_workspace_of_cublas_has_a_title_of_its_own)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, WORKSPACE, ADDMM), PYTHON(&attend, &train), false);
    add(&bench, NATIVE(MALLOC, WORKSPACE_OF_OLD, ADDMM), PYTHON(&train), true);
    add(&bench, NATIVE(MALLOC, EMPTY, ADDMM), PYTHON(&attend, &train), false);
    add(&bench, NATIVE(MALLOC, WORKSPACE_OF_OWN), NULL, false);
    CHECK_STR_EQ(titles(&bench),
            "cuBLAS workspace, Block.attend gpt.py:28\n"
            "cuBLAS workspace, step train.py:60\n"
            "Block.attend gpt.py:28\n"
            "makeWorkspace t.cc:24\n");
    char **ways = title_ways(bench.symbols, bench.stacks, sizeof(bench.stacks[0]), 0, bench.count);
    CHECK_STR_EQ(ways[0], "cuBLAS workspace");
    CHECK_STR_EQ(ways[1], "cuBLAS workspace");
    CHECK_EQ(title_is_workspace(ways[0]), true);
    CHECK_EQ(title_is_workspace(ways[2]), false);
    title_done(ways, bench.count);
    bench_end(&bench);
}

TEST(rows_that_are_the_same_stay_so)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&attend, &train), false);
    add(&bench, NATIVE(NAMELESS, LOOP), PYTHON(&attend, &train), false);
    CHECK_STR_EQ(titles(&bench), "Block.attend gpt.py:28\nBlock.attend gpt.py:28\n");
    bench_end(&bench);
}

static void check_words(const struct bench *bench, const char *const *words)
{
    char **found =
            title_words(bench->symbols, bench->stacks, sizeof(bench->stacks[0]), 0, bench->count);

    for (size_t i = 0; i < bench->count; i++)
        CHECK_STR_EQ(found[i], words[i]);
    title_done(found, bench->count);
}

TEST(ways_and_words_are_of_the_same_frames)
{
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&linear, &attend, &call_impl, &block, &train, &typed),
            false);
    add(&bench, NATIVE(OWN, OWN_OUTER), NULL, false);
    add(&bench, NATIVE(NAMELESS), NULL, false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&typed), false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&linear, &attend, &block, &typed), false);
    bench.symbols = symbols_new(bench.trace);
    static const char *const ways[] = {"Block.attend gpt.py:28 < step train.py:60",
            "allocate trainer.c:65", "libc10_cuda.so.2.6", "<module> <string>:1",
            "Block.attend gpt.py:28 < <module> <string>:1"};
    static const char *const words[] = {
            "attend-step", "allocate", "", "<module>", "attend-<module>"};
    char **found = title_ways(bench.symbols, bench.stacks, sizeof(bench.stacks[0]), 0, bench.count);
    for (size_t i = 0; i < bench.count; i++)
        CHECK_STR_EQ(found[i], ways[i]);
    title_done(found, bench.count);
    check_words(&bench, words);
    bench_end(&bench);
}

/* The helper of a step and of an evaluation: the caller is in the title, whichever row a table has. */
TEST(a_title_has_the_line_that_one_of_two_places_has)
{
    static const struct trace_pyframe evaluate = {
            "evaluate", "/home/me/train.py", 41, false, false, 0};
    static const struct trace_pyframe gpt = {"GPT.forward", "/home/me/gpt.py", 45, false, false, 0};
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&attend, &call_impl, &block, &gpt, &evaluate), false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&attend, &call_impl, &block, &gpt, &train), false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&gpt, &train), false);
    bench.count = 1;
    CHECK_STR_EQ(titles(&bench), "Block.attend gpt.py:28 < evaluate train.py:41\n");
    char *line = title_line(bench.symbols, bench.stacks[0]);
    CHECK_STR_EQ(line, "Block.attend gpt.py:28");
    free(line);
    symbols_free(bench.symbols);
    /* A stack that comes later counts, too. */
    bench.symbols = symbols_new(bench.trace);
    char **rows = title_rows(bench.symbols, &bench.stacks[2], sizeof(bench.stacks[0]), 0, 1);
    CHECK_STR_EQ(rows[0], "GPT.forward gpt.py:45");
    title_done(rows, 1);
    bench.count = 3;
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&gpt, &evaluate), false);
    rows = title_rows(bench.symbols, &bench.stacks[2], sizeof(bench.stacks[0]), 0, 1);
    CHECK_STR_EQ(rows[0], "GPT.forward gpt.py:45 < step train.py:60");
    title_done(rows, 1);
    bench_end(&bench);
}

/* What tells rows apart is in their words, unless it is a library's. */
TEST(words_tell_rows_apart_by_the_programs_functions)
{
    static const char *const words[] = {"attend-forward", "attend-step", "allocate"};
    struct bench bench = bench_begin();

    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&linear, &attend, &call_impl, &block), false);
    add(&bench, NATIVE(MALLOC, LOOP), PYTHON(&linear, &attend, &call_impl, &train), false);
    add(&bench, NATIVE(OWN), NULL, false);
    bench.symbols = symbols_new(bench.trace);
    check_words(&bench, words);
    bench_end(&bench);
}

/* Whatever the language makes of a name: what the program calls the function, and no number of a build but where nothing else is. */
TEST(words_are_names_of_the_program)
{
    static const enum place places_of_cxx[] = {FILL, LAMBDA, CALL, SHIFT, MAKER, PART, NO_NAME};
    static const char *const of_cxx[] = {"ns::fill", "main", "ns::Op::operator()", "ns::operator<<",
            "make_operator", "helper.part.0", "trainer"};
    static const char *const of_nothing[] = {"libown+0x12", "", "", ""};
    struct bench named = bench_begin();
    struct bench nameless = bench_begin();

    for (size_t i = 0; i < sizeof(places_of_cxx) / sizeof(*places_of_cxx); i++)
        add(&named, NATIVE(MALLOC, places_of_cxx[i]), NULL, false);
    named.symbols = symbols_new(named.trace);
    check_words(&named, of_cxx);
    bench_end(&named);
    add(&nameless, NATIVE(OWN_NAMELESS), NULL, false);
    add(&nameless, NATIVE(NO_FILE), NULL, false);
    add(&nameless, (const enum place[]){END}, NULL, false);
    add(&nameless, NATIVE(MALLOC, TORCH_CALL), NULL, false);
    nameless.symbols = symbols_new(nameless.trace);
    check_words(&nameless, of_nothing);
    bench_end(&nameless);
}

/* As `kedge import` has them: native functions among the Python ones, by name, in no module. */
TEST(frames_that_another_tool_named_are_known_by_their_names)
{
    static const struct trace_pyframe allocator = {
            "c10::cuda::malloc(void**)", "CUDACachingAllocator.cpp", 0, false, true, 0};
    static const struct trace_pyframe result = {
            "at::Tensor at::detail::_empty(int)", "", 0, false, true, 0};
    static const struct trace_pyframe operation = {
            "at::native::gelu(at::Tensor const&)", "", 0, false, true, 0};
    static const struct trace_pyframe engine = {
            "void torch::autograd::apply<int>(int)", "engine.cpp", 4, false, true, 0};
    static const struct trace_pyframe own = {"mine::fill(int)", "fill.cu", 12, false, true, 0};
    static const struct trace_pyframe nameless = {"mine::copy(int)", "", 0, false, true, 0};
    struct bench bench = bench_begin();

    add(&bench, NATIVE(END), PYTHON(&allocator, &operation, &attend, &train), false);
    add(&bench, NATIVE(END), PYTHON(&allocator, &result, &operation, &engine), false);
    add(&bench, NATIVE(END), PYTHON(&allocator, &own, &linear), false);
    add(&bench, NATIVE(END), PYTHON(&allocator, &nameless), false);
    add(&bench, NATIVE(END), PYTHON(&allocator), false);
    CHECK_STR_EQ(titles(&bench),
            "Block.attend gpt.py:28\n"
            "at::native::gelu\n"
            "mine::fill(int) fill.cu:12\n"
            "mine::copy(int)\n"
            "c10::cuda::malloc\n");
    bench_end(&bench);
}
