/* SPDX-License-Identifier: MIT */
/* What C++ programs hold device memory by, each block of a size of its own; scan.py compares what kedge says of each. */
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" int cudaMalloc(void **ret_ptr, size_t size);

/* Also where no code reads it. */
#define KEPT __attribute__((used))

namespace {

size_t next_size = 1 << 16;

/* A block of a size that no other one has. */
__attribute__((noinline)) void *take(const char *name)
{
    void *ptr = nullptr;

    next_size += 1 << 16;
    if (cudaMalloc(&ptr, next_size) != 0)
        exit(3);
    printf("plant %s %zu\n", name, next_size);
    return ptr;
}

__attribute__((noinline)) void wipe()
{
    volatile char over[1 << 16];

    for (size_t i = 0; i < sizeof over; i++)
        over[i] = 0;
}

struct tensor {
    std::string name;
    void *data = nullptr;
    explicit tensor(const char *of) : name(of), data(take(of)) {}
    virtual ~tensor() = default;
};

struct session {
    std::vector<std::shared_ptr<tensor>> history;
    virtual ~session() = default;
};

struct counted { /* new counted[n] has the count before the elements */
    void *data = nullptr;
    ~counted() { data = nullptr; }
};

KEPT std::vector<void *> stack;
KEPT std::map<int, void *> by_number;
KEPT std::unordered_map<std::string, void *> by_name;
KEPT std::deque<void *> ring;
KEPT std::list<void *> chain;
KEPT std::unique_ptr<tensor> only;
KEPT std::shared_ptr<tensor> shared;
KEPT std::array<void *, 4> fixed;
KEPT std::map<std::string, session> sessions;
KEPT std::pair<int, void *> both;
KEPT counted *counted_ones;
thread_local std::vector<void *> mine;

} // namespace

namespace engine {
struct cache {
    static void *workspace;
};
void *cache::workspace;
} // namespace engine

__attribute__((noinline)) static void plant()
{
    stack.push_back(take("vector"));
    for (int i = 0; i < 4; i++)
        by_number[i] = nullptr;
    by_number[2] = take("map");
    by_name["a"] = take("unordered_map");
    ring.push_back(take("deque"));
    chain.push_back(take("list"));
    only = std::make_unique<tensor>("unique_ptr");
    shared = std::make_shared<tensor>("shared_ptr");
    fixed[3] = take("array");
    sessions["one"].history.push_back(std::make_shared<tensor>("deep"));
    both = {1, take("pair")};
    counted_ones = new counted[3];
    counted_ones[1].data = take("counted");
    mine.push_back(take("thread_local"));
    engine::cache::workspace = take("static_member");
    (void)take("leaked");
}

int main()
{
    std::vector<tensor> local;
    void *ptr = nullptr;

    plant();
    local.emplace_back("local_vector");
    wipe();
    fflush(stdout);
    return cudaMalloc(&ptr, size_t(1) << 46) == 0;
}
