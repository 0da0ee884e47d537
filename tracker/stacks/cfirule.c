/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/cfirule.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* DWARF's register numbers; 16 is the return address. */
#define REG_BP 6u
#define REG_SP 7u
#define REG_RA 16u

#define STATES_MAX 4u /* nesting of DW_CFA_remember_state */

/* Operations of DWARF expressions. */
#define OP_DEREF 0x06u
#define OP_BREG0 0x70u /* + register number; a signed offset follows */

/* Pointer encodings that linkers for this machine produce. */
#define PCREL_4   0x1b
#define PCREL_8   0x1c
#define UDATA_4   0x03
#define DATAREL_4 0x3b

enum {
    DW_CFA_nop = 0x00,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0a,
    DW_CFA_restore_state = 0x0b,
    DW_CFA_def_cfa = 0x0c,
    DW_CFA_def_cfa_register = 0x0d,
    DW_CFA_def_cfa_offset = 0x0e,
    DW_CFA_def_cfa_expression = 0x0f,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_offset = 0x14,
    DW_CFA_val_offset_sf = 0x15,
    DW_CFA_val_expression = 0x16,
    DW_CFA_GNU_args_size = 0x2e,
    DW_CFA_advance_loc = 0x40, /* the low six bits of these three are an operand */
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0,
};

/* Bytes read in order; a read beyond the end, or an invalid value, sets is_bad. */
struct bytes {
    const unsigned char *at, *end;
    bool is_bad;
};

enum saved {
    SAVED_SAME,
    SAVED_AT,    /* CFA + offset */
    SAVED_BY_BP, /* rbp + offset */
    SAVED_NOWHERE,
    SAVED_OTHER,
};

struct saved_register {
    enum saved how;
    int64_t offset;
};

#define CFA_EXPRESSION UINT64_MAX       /* an unknown expression */
#define CFA_WORD_BY_BP (UINT64_MAX - 1) /* the word at rbp + offset */

/* The three registers that lead from frame to frame. */
struct state {
    uint64_t cfa_register; /* or one of the two constants above */
    int64_t cfa;
    struct saved_register bp, sp, ra;
};

struct machine {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t wanted; /* the state is wanted for this instruction */
    uint64_t at;
    struct state now, first; /* `first`: after the CIE */
    struct state remembered[STATES_MAX];
    unsigned remembered_count;
};

static uint64_t fixed_bytes(struct bytes *bytes, size_t size)
{
    uint64_t value = 0;

    if ((size_t)(bytes->end - bytes->at) < size) {
        bytes->is_bad = true;
        return 0;
    }
    memcpy(&value, bytes->at, size);
    bytes->at += size;
    return value;
}

/* LEB128. */
static uint64_t leb128(struct bytes *bytes, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint64_t byte;

    do {
        byte = fixed_bytes(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return value;
}

static int64_t signed_leb128(struct bytes *bytes)
{
    return (int64_t)leb128(bytes, true);
}

static void skip_bytes(struct bytes *bytes, uint64_t count)
{
    if ((uint64_t)(bytes->end - bytes->at) < count)
        bytes->is_bad = true;
    else
        bytes->at += count;
}

static struct saved_register *find_register(struct state *state, uint64_t number)
{
    switch (number) {
    case REG_BP:
        return &state->bp;
    case REG_SP:
        return &state->sp;
    case REG_RA:
        return &state->ra;
    default:
        return NULL;
    }
}

static void set_saved(struct machine *machine, uint64_t reg, enum saved how, int64_t offset)
{
    struct saved_register *saved = find_register(&machine->now, reg);

    if (saved)
        *saved = (struct saved_register){how, offset};
}

static void restore_saved(struct machine *machine, uint64_t reg)
{
    struct saved_register *saved = find_register(&machine->now, reg);

    if (saved)
        *saved = *find_register(&machine->first, reg);
}

/* Reads an expression "rbp + offset", followed by `then` (0: by nothing). False: another
 * expression. */
static bool read_by_bp(struct bytes *bytes, unsigned then, int64_t *ret_offset)
{
    uint64_t length = leb128(bytes, false);
    struct bytes expression = {.at = bytes->at, .end = bytes->at};

    skip_bytes(bytes, length);
    if (bytes->is_bad || length == 0)
        return false;
    expression.end = bytes->at;
    if (fixed_bytes(&expression, 1) != OP_BREG0 + REG_BP)
        return false;
    *ret_offset = signed_leb128(&expression);
    if (then != 0 && fixed_bytes(&expression, 1) != then)
        return false;
    return !expression.is_bad && expression.at == expression.end;
}

/* Executes the instructions that define the CFA. */
static void run_cfa(
        const struct machine *machine, struct state *now, struct bytes *bytes, unsigned code)
{
    switch (code) {
    case DW_CFA_def_cfa:
        now->cfa_register = leb128(bytes, false);
        now->cfa = (int64_t)leb128(bytes, false);
        break;
    case DW_CFA_def_cfa_sf:
        now->cfa_register = leb128(bytes, false);
        now->cfa = signed_leb128(bytes) * machine->data_factor;
        break;
    case DW_CFA_def_cfa_register:
        bytes->is_bad |= now->cfa_register >= CFA_WORD_BY_BP;
        now->cfa_register = leb128(bytes, false);
        break;
    case DW_CFA_def_cfa_offset:
        now->cfa = (int64_t)leb128(bytes, false);
        break;
    case DW_CFA_def_cfa_offset_sf:
        now->cfa = signed_leb128(bytes) * machine->data_factor;
        break;
    case DW_CFA_def_cfa_expression:
        now->cfa_register =
                read_by_bp(bytes, OP_DEREF, &now->cfa) ? CFA_WORD_BY_BP : CFA_EXPRESSION;
        break;
    default: /* set_loc, obsolete or unknown ones */
        bytes->is_bad = true;
        break;
    }
}

/* NOLINTNEXTLINE(readability-function-size): a row of the table of the format a case */
static void run_extended(struct machine *machine, struct bytes *bytes, unsigned code)
{
    struct state *now = &machine->now;
    int64_t offset = 0;
    uint64_t reg;

    switch (code) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        machine->at += fixed_bytes(bytes, (size_t)1 << (code - DW_CFA_advance_loc1))
                * machine->code_factor;
        break;
    case DW_CFA_offset_extended:
        reg = leb128(bytes, false);
        set_saved(machine, reg, SAVED_AT, (int64_t)leb128(bytes, false) * machine->data_factor);
        break;
    case DW_CFA_offset_extended_sf:
        reg = leb128(bytes, false);
        set_saved(machine, reg, SAVED_AT, signed_leb128(bytes) * machine->data_factor);
        break;
    case DW_CFA_restore_extended:
        restore_saved(machine, leb128(bytes, false));
        break;
    case DW_CFA_undefined:
        set_saved(machine, leb128(bytes, false), SAVED_NOWHERE, 0);
        break;
    case DW_CFA_same_value:
        set_saved(machine, leb128(bytes, false), SAVED_SAME, 0);
        break;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
        set_saved(machine, leb128(bytes, false), SAVED_OTHER, 0);
        (void)leb128(bytes, false);
        break;
    case DW_CFA_expression:
        reg = leb128(bytes, false);
        if (read_by_bp(bytes, 0, &offset))
            set_saved(machine, reg, SAVED_BY_BP, offset);
        else
            set_saved(machine, reg, SAVED_OTHER, 0);
        break;
    case DW_CFA_val_expression:
        set_saved(machine, leb128(bytes, false), SAVED_OTHER, 0);
        skip_bytes(bytes, leb128(bytes, false));
        break;
    case DW_CFA_remember_state:
        if (machine->remembered_count == STATES_MAX)
            bytes->is_bad = true;
        else
            machine->remembered[machine->remembered_count++] = *now;
        break;
    case DW_CFA_restore_state:
        if (machine->remembered_count == 0)
            bytes->is_bad = true;
        else
            *now = machine->remembered[--machine->remembered_count];
        break;
    case DW_CFA_GNU_args_size:
        (void)leb128(bytes, false);
        break;
    default:
        run_cfa(machine, now, bytes, code);
        break;
    }
}

/* Executes the instructions of a CIE or of an FDE, up to the first one beyond the wanted
 * address. */
static void run_instructions(struct machine *machine, struct bytes *bytes)
{
    while (bytes->at < bytes->end && !bytes->is_bad) {
        unsigned code = (unsigned)fixed_bytes(bytes, 1);
        uint64_t operand = code & 0x3f;

        switch (code & 0xc0) {
        case DW_CFA_advance_loc:
            machine->at += operand * machine->code_factor;
            break;
        case DW_CFA_offset:
            set_saved(machine, operand, SAVED_AT,
                    (int64_t)leb128(bytes, false) * machine->data_factor);
            break;
        case DW_CFA_restore:
            restore_saved(machine, operand);
            break;
        default:
            run_extended(machine, bytes, code);
            break;
        }
        if (machine->at > machine->wanted)
            return;
    }
}

/* An entry of .eh_frame after its length; bad at the end, and for the 64-bit form. */
static struct bytes cfirule_entry_at(const unsigned char *at)
{
    struct bytes bytes = {.at = at, .end = at + 4};
    uint64_t length = fixed_bytes(&bytes, 4);

    if (length == 0 || length >= UINT32_C(0xfffffff0))
        return (struct bytes){.is_bad = true};
    bytes.end = bytes.at + length;
    return bytes;
}

/* The size of an encoded pointer; 0: an unsupported encoding. */
static size_t pointer_bytes(uint64_t encoding)
{
    switch (encoding & 0x0f) {
    case 0x00: /* absolute */
    case 0x04:
    case 0x0c:
        return encoding == 0x50 ? 0 : 8; /* 0x50: aligned first */
    case 0x03:
    case 0x0b:
        return 4;
    default:
        return 0;
    }
}

/* Reads the augmentation data of a CIE; *ret_encoding is the encoding of an FDE's addresses. Bad:
 * unknown letters, and signal frames. */
static void read_augmentation(struct bytes *bytes, const char *letters, uint64_t *ret_encoding)
{
    struct bytes data;
    uint64_t length;
    size_t size;

    *ret_encoding = 0;
    if (*letters++ != 'z') {
        bytes->is_bad = true; /* no current compiler writes such tables for this machine */
        return;
    }
    length = leb128(bytes, false);
    data = (struct bytes){.at = bytes->at, .end = bytes->at};
    skip_bytes(bytes, length);
    if (bytes->is_bad)
        return;
    data.end = bytes->at;
    for (; *letters; letters++) {
        uint64_t encoding =
                *letters == 'R' || *letters == 'P' || *letters == 'L' ? fixed_bytes(&data, 1) : 0;

        if (*letters == 'R') {
            *ret_encoding = encoding;
        } else if (*letters == 'P') {
            size = pointer_bytes(encoding);
            data.is_bad |= size == 0;
            skip_bytes(&data, size);
        } else if (*letters != 'L') {
            data.is_bad = true;
        }
    }
    bytes->is_bad |= data.is_bad;
}

/* Reads the CIE: factors, the first state. *ret_encoding as above. */
static bool read_cie(const unsigned char *at, struct machine *machine, uint64_t *ret_encoding)
{
    struct bytes bytes = cfirule_entry_at(at);
    const char *letters;

    if (bytes.is_bad || fixed_bytes(&bytes, 4) != 0 || fixed_bytes(&bytes, 1) != 1 /* version */)
        return false;
    letters = (const char *)bytes.at;
    if (!memchr(letters, 0, (size_t)(bytes.end - bytes.at)))
        return false;
    bytes.at += strlen(letters) + 1;
    machine->code_factor = leb128(&bytes, false);
    machine->data_factor = signed_leb128(&bytes);
    if (fixed_bytes(&bytes, 1) != REG_RA)
        return false;
    read_augmentation(&bytes, letters, ret_encoding);
    if (bytes.is_bad)
        return false;
    machine->wanted = UINT64_MAX;
    run_instructions(machine, &bytes);
    machine->first = machine->now;
    return !bytes.is_bad;
}

static bool fits_16(int64_t value)
{
    return value >= INT16_MIN && value <= INT16_MAX;
}

static struct cfirule rule_of(const struct state *state)
{
    const struct cfirule other = {.kind = CFIRULE_OTHER};
    bool is_by_bp = state->cfa_register == REG_BP;

    if (state->ra.how == SAVED_NOWHERE)
        return (struct cfirule){.kind = CFIRULE_END};
    if (state->ra.how != SAVED_AT || state->ra.offset != -8 || state->sp.how != SAVED_SAME
            || !fits_16(state->bp.offset))
        return other;
    if (state->cfa_register == CFA_WORD_BY_BP && state->bp.how == SAVED_BY_BP
            && fits_16(state->cfa))
        return (struct cfirule){.kind = CFIRULE_ALIGNED,
                .is_by_bp = true,
                .has_bp = true,
                .bp = (int16_t)state->bp.offset,
                .cfa = (int32_t)state->cfa};
    if ((!is_by_bp && state->cfa_register != REG_SP) || state->cfa < 8 || state->cfa > INT32_MAX
            || (state->bp.how != SAVED_SAME && state->bp.how != SAVED_AT))
        return other;
    return (struct cfirule){.kind = CFIRULE_PLAIN,
            .is_by_bp = is_by_bp,
            .has_bp = state->bp.how == SAVED_AT,
            .bp = (int16_t)state->bp.offset,
            .cfa = (int32_t)state->cfa};
}

static struct cfirule read_fde(const unsigned char *at, uint64_t wanted)
{
    const struct cfirule other = {.kind = CFIRULE_OTHER};
    struct bytes bytes = cfirule_entry_at(at);
    const unsigned char *here = bytes.at;
    struct machine machine = {.now = {.cfa_register = CFA_EXPRESSION}};
    uint64_t back, encoding, first, length;

    if (bytes.is_bad)
        return other;
    back = fixed_bytes(&bytes, 4);
    if (back == 0 || !read_cie(here - back, &machine, &encoding))
        return other;
    here = bytes.at;
    if (encoding == PCREL_4) {
        first = (uintptr_t)here + (uint64_t)(int64_t)(int32_t)fixed_bytes(&bytes, 4);
        length = fixed_bytes(&bytes, 4);
    } else if (encoding == PCREL_8) {
        first = (uintptr_t)here + fixed_bytes(&bytes, 8);
        length = fixed_bytes(&bytes, 8);
    } else {
        return other;
    }
    skip_bytes(&bytes, leb128(&bytes, false)); /* the augmentation data: for exceptions */
    if (bytes.is_bad)
        return other;
    if (wanted - first >= length)
        return (struct cfirule){.kind = CFIRULE_NONE};
    machine.at = first;
    machine.wanted = wanted;
    run_instructions(&machine, &bytes);
    return bytes.is_bad ? other : rule_of(&machine.now);
}

/* True if the table of .eh_frame_hdr has the supported form: (first instruction, FDE), both
 * relative to the header. */
static bool is_usual(const unsigned char *header, size_t size)
{
    return size >= 12 && header[0] == 1 && header[1] == PCREL_4 && header[2] == UDATA_4
            && header[3] == DATAREL_4;
}

/* The last FDE of the table that begins at or before an address; NULL: none. */
static const unsigned char *find_fde(const unsigned char *header, size_t size, uint64_t wanted)
{
    const size_t row = 2 * sizeof(int32_t);
    uint32_t count;
    uint32_t low = 0, high;
    int32_t words[2];

    memcpy(&count, header + 8, sizeof count);
    high = count;
    if (count > (size - 12) / row)
        return NULL;
    while (low < high) { /* the first entry beyond */
        uint32_t middle = low + (high - low) / 2;

        memcpy(words, header + 12 + middle * row, sizeof words);
        if ((int64_t)(wanted - (uintptr_t)header) < words[0])
            high = middle;
        else
            low = middle + 1;
    }
    if (low == 0)
        return NULL;
    memcpy(words, header + 12 + (low - 1) * row, sizeof words);
    return header + words[1];
}

struct search {
    uint64_t wanted;
    struct cfirule rule;
};

/* Reads the tables inside the callback, where the loader's lock keeps the object loaded. */
static int look_into(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const ElfW(Phdr) *table = NULL;
    const unsigned char *fde;
    bool is_in = false;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD
                && search->wanted - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            is_in = true;
        if (segment->p_type == PT_GNU_EH_FRAME)
            table = segment;
    }
    if (is_in && table) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        const unsigned char *header = (const void *)(info->dlpi_addr + table->p_vaddr);

        if (!is_usual(header, table->p_memsz)) {
            search->rule.kind = CFIRULE_OTHER;
            return true;
        }
        fde = find_fde(header, table->p_memsz, search->wanted);
        if (fde)
            search->rule = read_fde(fde, search->wanted);
    }
    return is_in;
}

struct cfirule cfirule_of(uintptr_t ip)
{
    /* The call itself: the return address may belong to the next function already. */
    struct search search = {.wanted = ip - 1, .rule = {.kind = CFIRULE_NONE}};

    (void)dl_iterate_phdr(look_into, &search);
    return search.rule;
}

/* ---- cache ---------------------------------------------------------------------------------- */

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

enum {
    KNOWN = 4096, /* a power of two */
};

/* A rule, and in `check` a combination of its address, the round and the rule: if two threads write
 * here at once, no mixed pair is accepted. An empty entry matches no address, since a round has a
 * bit that no address has. */
static struct {
    _Atomic uint64_t check, rule;
} known[KNOWN];
static _Atomic uint64_t rounds; /* how often all entries were dropped */

_Static_assert(sizeof(struct cfirule) == sizeof(uint64_t), "stored in one word");

struct cfirule cfirule_known(uintptr_t ip)
{
    uint64_t round =
            atomic_load_explicit(&rounds, memory_order_acquire) * FACTOR | UINT64_C(1) << 63;
    unsigned at = (unsigned)((ip * FACTOR) >> 32 & (KNOWN - 1));
    uint64_t word = atomic_load_explicit(&known[at].rule, memory_order_relaxed);
    struct cfirule rule;

    if ((atomic_load_explicit(&known[at].check, memory_order_relaxed) ^ word) == (ip ^ round)) {
        memcpy(&rule, &word, sizeof rule);
        return rule;
    }
    rule = cfirule_of(ip);
    memcpy(&word, &rule, sizeof word);
    atomic_store_explicit(&known[at].rule, word, memory_order_relaxed);
    atomic_store_explicit(&known[at].check, word ^ ip ^ round, memory_order_relaxed);
    return rule;
}

void cfirule_forget(void)
{
    (void)atomic_fetch_add_explicit(&rounds, 1, memory_order_release);
}
