/* SPDX-License-Identifier: MIT */
#include "tracker/planfile.h"

#include "tracker/ownfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX   4096u /* no driver has as many; keeps the number an int */
#define QUANTUM_LEAST 256u
#define QUANTUM_MOST  (1u << 21)
#define LINE_MOST     128u /* bytes that a line of a block can take */

struct reader {
    const char *name;
    const char *at, *end;
    const char *line_start;
    uint32_t line;
    struct planfile *file;
    uint32_t *lines; /* of each block, for messages about two of them */
    struct planfile_error *error;
};

/* A word of a line: not terminated. */
struct word {
    const char *text;
    size_t length;
    uint32_t column;
};

static int fail(struct planfile_error *error, const char *name, uint32_t line, uint32_t column,
        const char *format, ...) __attribute__((format(printf, 5, 6)));

static int fail(struct planfile_error *error, const char *name, uint32_t line, uint32_t column,
        const char *format, ...)
{
    va_list args;
    int length;

    error->line = line;
    error->column = column;
    if (line)
        length = snprintf(error->text, sizeof error->text, "%.300s:%" PRIu32 ":%" PRIu32 ": ", name,
                line, column);
    else
        length = snprintf(error->text, sizeof error->text, "%.300s: ", name);
    if (length < 0 || (size_t)length >= sizeof error->text)
        length = 0;
    va_start(args, format);
    (void)vsnprintf(error->text + length, sizeof error->text - (size_t)length, format, args);
    va_end(args);
    return -EINVAL;
}

/* ── is it a plan? ── */

/* Which of many numbers are set, so that the next one below and above is found in a few loads: bit i of a level says
 * that word i of the level below is not 0. */
#define LEVELS 4u

struct numbers {
    uint64_t *level[LEVELS];
    uint64_t words; /* in the lowest */
};

static int numbers_init(struct numbers *set, uint32_t count)
{
    uint64_t words = (uint64_t)count / 64 + 1;

    set->words = words;
    for (unsigned i = 0; i < LEVELS; i++) {
        set->level[i] = calloc(words, sizeof(uint64_t));
        if (!set->level[i])
            return -ENOMEM;
        words = words / 64 + 1;
    }
    return 0;
}

static void numbers_done(struct numbers *set)
{
    for (unsigned i = 0; i < LEVELS; i++)
        free(set->level[i]);
}

static void numbers_add(struct numbers *set, uint32_t n)
{
    for (unsigned i = 0; i < LEVELS; i++, n /= 64)
        set->level[i][n / 64] |= UINT64_C(1) << n % 64;
}

static void numbers_drop(struct numbers *set, uint32_t n)
{
    for (unsigned i = 0; i < LEVELS; i++, n /= 64) {
        set->level[i][n / 64] &= ~(UINT64_C(1) << n % 64);
        if (set->level[i][n / 64])
            return;
    }
}

/* Goes down from bit `n` of a level to the first or last number under it. */
static uint32_t numbers_down(const struct numbers *set, unsigned level, uint32_t n, bool last)
{
    while (level-- > 0) {
        uint64_t word = set->level[level][n];

        n = n * 64 + (uint32_t)(last ? 63 - __builtin_clzll(word) : __builtin_ctzll(word));
    }
    return n;
}

/* The nearest set number below or above `n`, UINT32_MAX = none. */
static uint32_t numbers_near(const struct numbers *set, uint32_t n, bool below)
{
    for (unsigned i = 0; i < LEVELS; i++, n /= 64) {
        uint64_t bit = UINT64_C(1) << n % 64;
        uint64_t mask = below ? bit - 1 : ~(bit | (bit - 1));
        uint64_t word = set->level[i][n / 64] & mask;

        if (word)
            return numbers_down(set, i,
                    n / 64 * 64
                            + (uint32_t)(below ? 63 - __builtin_clzll(word)
                                               : __builtin_ctzll(word)),
                    below);
    }
    return UINT32_MAX;
}

/* The state of a walk through two steps, that notes which blocks are live. */
struct sweep {
    const struct planfile *file;
    struct numbers live; /* ranks */
    uint32_t *by_rank;   /* blocks in order of (offset, number) */
    uint32_t *rank;      /* its inverse */
    /* per allocation of the two steps: chain of blocks that are freed before it, + 1 */
    uint32_t *ends;
    uint32_t *next; /* of a chain; a block is in one at a time */
};

struct place {
    uint64_t offset;
    uint32_t block;
};

static int by_offset(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;

    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->block < right->block ? -1 : left->block > right->block;
}

static void sweep_done(struct sweep *sweep)
{
    numbers_done(&sweep->live);
    free(sweep->by_rank);
    free(sweep->rank);
    free(sweep->ends);
    free(sweep->next);
}

static int sweep_init(struct sweep *sweep, const struct planfile *file)
{
    struct place *places = malloc(file->count * sizeof(*places));

    *sweep = (struct sweep){.file = file};
    sweep->by_rank = malloc(file->count * sizeof(uint32_t));
    sweep->rank = malloc(file->count * sizeof(uint32_t));
    sweep->ends = calloc((size_t)file->count * 2 + 1, sizeof(uint32_t));
    sweep->next = calloc(file->count, sizeof(uint32_t));
    if (!places || !sweep->by_rank || !sweep->rank || !sweep->ends || !sweep->next
            || numbers_init(&sweep->live, file->count) < 0) {
        free(places);
        sweep_done(sweep);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < file->count; i++)
        places[i] = (struct place){file->block[i].offset, i};
    qsort(places, file->count, sizeof(*places), by_offset);
    for (uint32_t i = 0; i < file->count; i++) {
        sweep->by_rank[i] = places[i].block;
        sweep->rank[places[i].block] = i;
    }
    free(places);
    return 0;
}

/* A live block that shares a byte with this one, UINT32_MAX = none. Those that are live share none with each other, so
 * that only the neighbours need be looked at. */
static uint32_t sweep_clash(const struct sweep *sweep, uint32_t block)
{
    const struct planned *mine = &sweep->file->block[block];
    uint32_t below = numbers_near(&sweep->live, sweep->rank[block], true);
    uint32_t above = numbers_near(&sweep->live, sweep->rank[block], false);

    if (below != UINT32_MAX) {
        const struct planned *other = &sweep->file->block[sweep->by_rank[below]];

        if (other->offset + other->size > mine->offset)
            return sweep->by_rank[below];
    }
    if (above != UINT32_MAX) {
        const struct planned *other = &sweep->file->block[sweep->by_rank[above]];

        if (mine->offset + mine->size > other->offset)
            return sweep->by_rank[above];
    }
    return UINT32_MAX;
}

/* One allocation of the walk, `at` counted through both steps: 0, or 1 and the two that clash. */
static int sweep_step(struct sweep *sweep, uint32_t at, uint32_t *ret_block, uint32_t *ret_other)
{
    const struct planfile *file = sweep->file;
    uint32_t block = at % file->count;
    uint64_t until = file->block[block].until;

    for (uint32_t end = sweep->ends[at]; end; end = sweep->next[end - 1])
        numbers_drop(&sweep->live, sweep->rank[end - 1]);
    if (until == PLANNED_STAYS && at >= file->count)
        return 0;
    *ret_block = block;
    *ret_other = sweep_clash(sweep, block);
    if (*ret_other != UINT32_MAX)
        return 1;
    numbers_add(&sweep->live, sweep->rank[block]);
    until += at - block;
    if (until < (uint64_t)file->count * 2) {
        sweep->next[block] = sweep->ends[until];
        sweep->ends[until] = block + 1;
    }
    return 0;
}

/* A block of its own, without the others: what is wrong with it, and in which word; NULL = nothing. */
static const char *block_fault(
        const struct planfile *file, uint32_t number, const struct planned *block, int *ret_word)
{
    *ret_word = 0;
    if (block->size == 0 || block->size & (file->quantum - 1))
        return "a size is a multiple of the quantum, and not 0";
    if (block->size > file->area)
        return "the block is larger than the area";
    *ret_word = 1;
    if (block->offset & (file->quantum - 1))
        return "an offset is a multiple of the quantum";
    if (block->offset > file->area - block->size)
        return "offset and size reach beyond the area";
    *ret_word = 2;
    if (block->until != PLANNED_STAYS
            && (block->until <= number || block->until - number > file->count))
        return "a block is freed after its own allocation, and before that of the next step";
    return NULL;
}

static const char *header_fault(const struct planfile *file)
{
    if (file->device < 0 || (unsigned)file->device >= DEVICES_MAX)
        return "there is no such device";
    if (file->entrance != ENTRANCE_SYNC && file->entrance != ENTRANCE_STREAM)
        return "there is no such entrance";
    if (file->quantum < QUANTUM_LEAST || file->quantum > QUANTUM_MOST
            || file->quantum & (file->quantum - 1))
        return "a quantum is a power of two from 256 to 2097152";
    if (file->area == 0 || file->area > PLANFILE_AREA_MAX || file->area & (file->quantum - 1))
        return "an area is a multiple of the quantum, not 0, at most 64 TiB";
    if (file->live > file->area)
        return "more is live than the area holds";
    if (file->count == 0 || file->count > PLANFILE_BLOCKS_MAX)
        return "a plan has from 1 to 1048576 blocks";
    return NULL;
}

/* 0, 1 and the two that clash, -ENOMEM. */
static int find_clash(const struct planfile *file, uint32_t *ret_block, uint32_t *ret_other)
{
    struct sweep sweep;
    int r = sweep_init(&sweep, file);

    if (r < 0)
        return r;
    for (uint32_t at = 0; r == 0 && at < file->count * 2; at++)
        r = sweep_step(&sweep, at, ret_block, ret_other);
    sweep_done(&sweep);
    return r;
}

int planfile_check(const struct planfile *file, struct planfile_error *ret_error)
{
    const char *fault = header_fault(file);
    uint32_t block = 0;
    uint32_t other = 0;
    int word, r;

    if (fault)
        return fail(ret_error, "plan", 0, 0, "%s", fault);
    for (uint32_t i = 0; i < file->count; i++) {
        fault = block_fault(file, i, &file->block[i], &word);
        if (fault)
            return fail(ret_error, "plan", 0, 0, "block %" PRIu32 ": %s", i, fault);
    }
    r = find_clash(file, &block, &other);
    if (r == 1)
        return fail(ret_error, "plan", 0, 0,
                "block %" PRIu32 " overlaps with block %" PRIu32 ", which is live then", block,
                other);
    return r;
}

/* ── words ── */

static uint32_t column_of(const struct reader *in, const char *at)
{
    return (uint32_t)(at - in->line_start) + 1;
}

static int fail_at(const struct reader *in, const struct word *word, const char *what)
{
    return fail(in->error, in->name, in->line, word->column, "%s", what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct reader *in)
{
    while (in->at < in->end && is_blank(*in->at))
        in->at++;
}

/* The next word of this line; length 0 at its end, with the place where one was expected. */
static struct word next_word(struct reader *in)
{
    struct word word;

    skip_blanks(in);
    word.text = in->at;
    word.column = column_of(in, in->at);
    if (in->at < in->end && *in->at == '#')
        while (in->at < in->end && *in->at != '\n')
            in->at++;
    else
        while (in->at < in->end && !is_blank(*in->at) && *in->at != '\n')
            in->at++;
    word.length = in->at > word.text && *word.text == '#' ? 0 : (size_t)(in->at - word.text);
    return word;
}

/* Moves on to the next line that has a word: false at the end of the file. */
static bool next_line(struct reader *in)
{
    while (in->at < in->end) {
        if (*in->at == '\n') {
            in->at++;
            in->line++;
            in->line_start = in->at;
        }
        skip_blanks(in);
        if (in->at < in->end && *in->at == '#')
            (void)next_word(in);
        if (in->at < in->end && *in->at != '\n')
            return true;
    }
    return false;
}

static int end_of_line(struct reader *in)
{
    struct word word = next_word(in);

    return word.length ? fail_at(in, &word, "nothing else belongs on this line") : 0;
}

static bool is_word(const struct word *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

static int read_number(
        struct reader *in, const struct word *word, uint64_t most, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (word->length == 0)
        return fail_at(in, word, "a number is missing");
    for (size_t i = 0; i < word->length; i++) {
        unsigned digit = (unsigned)(unsigned char)word->text[i] - '0';

        if (digit > 9)
            return fail_at(in, word, "not a decimal number");
        if (value > (UINT64_MAX - digit) / 10 || value * 10 + digit > most)
            return fail_at(in, word, "the number is too large");
        value = value * 10 + digit;
    }
    *ret_value = value;
    return 0;
}

static int read_site(struct reader *in, const struct word *word, uint64_t *ret_site)
{
    uint64_t site = 0;

    if (word->length == 0)
        return fail_at(in, word, "the site is missing (0 = not known)");
    if (word->length > 16)
        return fail_at(in, word, "a site has at most 16 hexadecimal digits");
    for (size_t i = 0; i < word->length; i++) {
        const char *digit = memchr("0123456789abcdef", word->text[i], 16);

        if (!digit)
            return fail_at(in, word, "a site has the digits 0-9 and a-f");
        site = site << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    *ret_site = site;
    return 0;
}

/* ── lines ── */

/* The next line is `key value`; the value is left to read. */
static int read_key(struct reader *in, const char *key, struct word *ret_value)
{
    struct word word = {.column = column_of(in, in->at)};

    if (next_line(in))
        word = next_word(in);
    else
        word.column = column_of(in, in->at);
    if (!is_word(&word, key))
        return fail(in->error, in->name, in->line, word.column, "'%s' is expected here", key);
    *ret_value = next_word(in);
    return 0;
}

static int read_key_number(
        struct reader *in, const char *key, uint64_t most, uint64_t *ret_value, struct word *word)
{
    int r = read_key(in, key, word);

    if (r == 0)
        r = read_number(in, word, most, ret_value);
    return r == 0 ? end_of_line(in) : r;
}

static int read_version(struct reader *in)
{
    struct word word = next_word(in);

    if (!is_word(&word, "kedge-plan"))
        return fail_at(in, &word, "not a plan: the first line is 'kedge-plan 1'");
    word = next_word(in);
    if (!is_word(&word, "1"))
        return fail_at(in, &word, "this version of a plan is not known here, only 1 is");
    return end_of_line(in);
}

/* `key` and one of two words. */
static int read_word(
        struct reader *in, const char *key, const char *first, const char *second, bool *ret_second)
{
    struct word word = {0};
    int r = read_key(in, key, &word);

    if (r != 0)
        return r;
    *ret_second = is_word(&word, second);
    if (!*ret_second && !is_word(&word, first))
        return fail(in->error, in->name, in->line, word.column, "'%s' or '%s' is expected here",
                first, second);
    return end_of_line(in);
}

static int read_header(struct reader *in)
{
    struct planfile *file = in->file;
    uint64_t device = 0;
    uint64_t count = 0;
    struct word word = {0};
    const char *fault;
    bool is_second = false;
    int r = read_version(in);

    if (r == 0)
        r = read_key_number(in, "device", DEVICES_MAX - 1, &device, &word);
    if (r == 0)
        r = read_word(in, "entrance", "sync", "stream", &is_second);
    file->entrance = is_second ? ENTRANCE_STREAM : ENTRANCE_SYNC;
    if (r == 0)
        r = read_word(in, "streams", "one", "all", &file->all_streams);
    file->device = (int)device;
    /* What is checked is what has been read; the rest is as it would be in a plan without a fault. */
    file->quantum = QUANTUM_MOST;
    file->area = QUANTUM_MOST;
    file->count = 1;
    if (r == 0)
        r = read_key_number(in, "quantum", UINT64_MAX, &file->quantum, &word);
    if (r == 0 && (file->quantum > QUANTUM_MOST || header_fault(file) != NULL))
        return fail_at(in, &word, "a quantum is a power of two from 256 to 2097152");
    if (r == 0)
        r = read_key_number(in, "area", UINT64_MAX, &file->area, &word);
    if (r == 0 && (fault = header_fault(file)) != NULL)
        return fail_at(in, &word, fault);
    if (r == 0)
        r = read_key_number(in, "live", UINT64_MAX, &file->live, &word);
    if (r == 0 && (fault = header_fault(file)) != NULL)
        return fail_at(in, &word, fault);
    if (r == 0)
        r = read_key_number(in, "blocks", UINT32_MAX, &count, &word);
    file->count = (uint32_t)count;
    if (r == 0 && (fault = header_fault(file)) != NULL)
        return fail_at(in, &word, fault);
    return r;
}

static int read_block(struct reader *in, uint32_t number)
{
    struct planned *block = &in->file->block[number];
    struct word word[4];
    uint64_t until = PLANNED_STAYS;
    const char *fault;
    int bad, r;

    for (unsigned i = 0; i < 4; i++)
        word[i] = next_word(in);
    r = read_number(in, &word[0], UINT64_MAX, &block->size);
    if (r == 0)
        r = read_number(in, &word[1], UINT64_MAX, &block->offset);
    if (r == 0 && !is_word(&word[2], "-"))
        r = read_number(in, &word[2], UINT32_MAX - 1, &until);
    if (r == 0)
        r = read_site(in, &word[3], &block->site);
    if (r == 0)
        r = end_of_line(in);
    if (r < 0)
        return r;
    block->until = (uint32_t)until;
    fault = block_fault(in->file, number, block, &bad);
    if (fault)
        return fail_at(in, &word[bad], fault);
    in->lines[number] = in->line;
    return 0;
}

static int read_blocks(struct reader *in)
{
    uint32_t count = in->file->count;
    uint32_t block = 0;
    uint32_t other = 0;
    int r = 0;

    /* The file's own word for its number is believed as far as its length allows: "512 0 1 0" is the least. */
    if (count > (uint64_t)(in->end - in->at) / 9 + 1)
        return fail(in->error, in->name, in->line, 1,
                "the file is too short for %" PRIu32 " blocks", count);
    in->file->block = calloc(count, sizeof(struct planned));
    in->lines = calloc(count, sizeof(uint32_t));
    if (!in->file->block || !in->lines)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        if (!next_line(in))
            return fail(in->error, in->name, in->line, column_of(in, in->at),
                    "the file ends after %" PRIu32 " of %" PRIu32 " blocks", i, count);
        r = read_block(in, i);
    }
    if (r == 0 && next_line(in))
        return fail(in->error, in->name, in->line, column_of(in, in->at),
                "there are more than %" PRIu32 " blocks", count);
    if (r == 0)
        r = find_clash(in->file, &block, &other);
    if (r == 1)
        return fail(in->error, in->name, in->lines[block], 1,
                "overlaps with the block of line %" PRIu32 ", which is live then",
                in->lines[other]);
    return r;
}

int planfile_read_bytes(const void *bytes, size_t length, const char *name,
        struct planfile **ret_file, struct planfile_error *ret_error)
{
    struct reader in = {.name = name,
            .at = bytes,
            .end = (const char *)bytes + length,
            .line_start = bytes,
            .line = 1,
            .error = ret_error};
    int r;

    memset(ret_error, 0, sizeof(*ret_error));
    *ret_file = NULL;
    if (length > PLANFILE_BYTES_MAX) {
        (void)fail(ret_error, name, 0, 0, "is too large");
        return -EFBIG;
    }
    in.file = calloc(1, sizeof(*in.file));
    r = in.file ? read_header(&in) : -ENOMEM;
    if (r == 0)
        r = read_blocks(&in);
    free(in.lines);
    if (r == -ENOMEM)
        (void)fail(ret_error, name, 0, 0, "no memory");
    if (r < 0)
        planfile_free(in.file);
    else
        *ret_file = in.file;
    return r;
}

int planfile_read(const char *path, struct planfile **ret_file, struct planfile_error *ret_error)
{
    const char *what = "";
    char *bytes = NULL;
    size_t length = 0;
    int r = ownfile_read(path, PLANFILE_BYTES_MAX, &bytes, &length, &what);

    *ret_file = NULL;
    if (r < 0) {
        (void)fail(ret_error, path, 0, 0, "%s", what);
        return r;
    }
    r = planfile_read_bytes(bytes, length, path, ret_file, ret_error);
    free(bytes);
    return r;
}

void planfile_free(struct planfile *file)
{
    if (!file)
        return;
    free(file->block);
    free(file);
}

/* ── writing ── */

/* Room for the note as comment lines, and its length. */
static size_t write_note(const char *note, char *to)
{
    char *at = to;
    bool is_new = true;

    for (; *note; note++) {
        if (is_new) {
            *at++ = '#';
            *at++ = ' ';
        }
        is_new = *note == '\n';
        *at++ = (char)(is_new || (unsigned char)*note >= ' ' ? *note : ' ');
    }
    if (!is_new)
        *at++ = '\n';
    return (size_t)(at - to);
}

int planfile_write(const struct planfile *file, const char *note, char **ret_text,
        size_t *ret_length, struct planfile_error *ret_error)
{
    size_t room = (size_t)LINE_MOST * ((size_t)file->count + 8) + (note ? strlen(note) * 3 + 8 : 0);
    size_t used;
    char *text;
    int r = planfile_check(file, ret_error);

    if (r < 0)
        return r;
    text = malloc(room);
    if (!text)
        return -ENOMEM;
    used = (size_t)snprintf(text, room, "kedge-plan %d\n", PLANFILE_VERSION);
    if (note)
        used += write_note(note, text + used);
    used += (size_t)snprintf(text + used, room - used,
            "device %d\nentrance %s\nstreams %s\nquantum %" PRIu64 "\narea %" PRIu64
            "\nlive %" PRIu64 "\nblocks %" PRIu32 "\n# size offset until site\n",
            file->device, file->entrance == ENTRANCE_SYNC ? "sync" : "stream",
            file->all_streams ? "all" : "one", file->quantum, file->area, file->live, file->count);
    for (uint32_t i = 0; i < file->count; i++) {
        const struct planned *block = &file->block[i];
        char until[16] = "-";

        if (block->until != PLANNED_STAYS)
            (void)snprintf(until, sizeof until, "%" PRIu32, block->until);
        used += (size_t)snprintf(text + used, room - used,
                "%" PRIu64 " %" PRIu64 " %s %" PRIx64 "\n", block->size, block->offset, until,
                block->site);
    }
    *ret_text = text;
    *ret_length = used;
    return 0;
}
