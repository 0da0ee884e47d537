/* SPDX-License-Identifier: MIT */
#include "tools/run/spawn.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/args.h"
#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/captures.h"
#include "tools/run/tree.h"
#include "tracker/base/config.h"
#include "tracker/capture/capold.h"

static char *own_directory(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n <= 0)
        return vec_text(".");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return vec_text(path);
}

/* The path of a file beside the running executable or in the folder of libraries, or NULL. */
static char *spawn_find(const char *name)
{
    static const char *const folders[] = {"", KEDGE_FOLDER "/"};
    char *directory = own_directory();
    char *found = NULL;

    for (size_t i = 0; i < CMD_COUNT(folders) && !found; i++) {
        char *path = vec_format("%s/%s%s", directory, folders[i], name);
        if (access(path, F_OK) == 0)
            found = path;
        else
            free(path);
    }
    free(directory);
    return found;
}

static char *spawn_find_library(void)
{
    char *found = spawn_find("libkedge.so");
    char *real = found ? realpath(found, NULL) : NULL;

    free(found);
    return real;
}

/* The folder of the simulated device, made absolute; NULL after one line on stderr. */
static char *find_sim(const char *who)
{
    const char *named = getenv("KEDGE_SIM");
    bool is_named = named && *named;
    char *driver = is_named ? vec_format("%s/libcuda.so.1", named) : spawn_find("sim/libcuda.so.1");
    char *found = NULL;

    if (driver && access(driver, R_OK) == 0) {
        *strrchr(driver, '/') = '\0';
        found = realpath(driver, NULL);
    }
    free(driver);
    if (!found)
        (void)fprintf(stderr,
                "%s: --sim: no simulated device in %s; install it (package kedge-sim), or set "
                "KEDGE_SIM to the directory of its libcuda.so.1\n",
                who, is_named ? named : "sim/ beside kedge or in " KEDGE_FOLDER "/sim");
    return found;
}

/* Checks the names that the object exports, as far as needed to recognise other preloads. */
static void look_at_symbols(Elf *elf, Elf_Scn *section, struct spawn_program *program)
{
    static const char *const lookups[] = {"dlsym", "cuGetProcAddress", "cuGetProcAddress_v2"};
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Shdr header;
    GElf_Sym symbol;

    if (!data || !gelf_getshdr(section, &header) || header.sh_entsize == 0)
        return;
    int count = (int)(header.sh_size / header.sh_entsize);
    for (int i = 0; i < count && gelf_getsym(data, i, &symbol); i++) {
        const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (!name || symbol.st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
            continue;
        for (size_t n = 0; n < CMD_COUNT(lookups); n++)
            program->answers_lookups |= strcmp(name, lookups[n]) == 0;
        program->is_kedge |= strcmp(name, "kedge_python_level") == 0;
    }
}

/*
 * Of the existing C libraries only musl has a loader that takes LD_PRELOAD but cannot load an
 * object of glibc's.
 */
static void look_at_loader(Elf *elf, struct spawn_program *program)
{
    GElf_Phdr segment;
    size_t count = 0, size = 0;
    const char *image = elf_rawfile(elf, &size);

    (void)elf_getphdrnum(elf, &count);
    program->is_static = true;
    for (int i = 0; i < (int)count && gelf_getphdr(elf, i, &segment); i++) {
        if (segment.p_type != PT_INTERP)
            continue;
        program->is_static = false;
        if (image && segment.p_offset < size)
            program->is_foreign = memmem(image + segment.p_offset,
                    strnlen(image + segment.p_offset, size - segment.p_offset), "musl", 4);
    }
}

struct spawn_program spawn_look_at(const char *path)
{
    struct spawn_program program = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    GElf_Shdr header;
    GElf_Ehdr file;
    Elf_Scn *section = NULL;

    if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE) {
        if (fd >= 0)
            (void)close(fd);
        return program;
    }
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    program.is_elf = elf && elf_kind(elf) == ELF_K_ELF;
    if (program.is_elf)
        look_at_loader(elf, &program);
    while (program.is_elf && (section = elf_nextscn(elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header))
            continue;
        if (header.sh_type == SHT_DYNSYM)
            look_at_symbols(elf, section, &program);
    }
    if (program.is_elf && gelf_getehdr(elf, &file)) {
        program.machine = file.e_machine;
        program.is_wide = file.e_ident[EI_CLASS] == ELFCLASS64;
    }
    if (elf)
        (void)elf_end(elf);
    (void)close(fd);
    return program;
}

/* The relevant objects that the user preloads. */
struct preloads {
    char *front; /* the first one that answers look-ups, NULL = none */
    struct vec_texts others;
};

static void look_at_preload(
        const struct launch_request *request, const char *object, struct preloads *preloads)
{
    char *real = strchr(object, '/') ? realpath(object, NULL) : NULL;
    struct spawn_program program = {0};

    if (real && strcmp(real, request->library) != 0)
        program = spawn_look_at(real);
    free(real);
    if (program.is_kedge)
        (void)vec_add_text(&preloads->others, vec_text(object));
    else if (program.answers_lookups && !preloads->front)
        preloads->front = vec_text(object);
}

static void look_at_preloads(struct launch_request *request, struct preloads *preloads)
{
    const char *list = getenv("LD_PRELOAD");
    size_t length;

    for (; list && *list; list += length + (list[length] != '\0')) {
        length = strcspn(list, ": ");
        char *object = vec_format("%.*s", (int)length, list);
        look_at_preload(request, object, preloads);
        free(object);
    }
    request->front = preloads->front;
    request->others = (const struct vec_texts *)&preloads->others;
}

static int spawn_prepare_launch(
        const char *who, struct launch_request *request, struct launch *ret_launch)
{
    char *path = framework_program(request->command[0], getenv("PATH"), ".");
    struct spawn_program program = {0};
    struct preloads preloads = {0};

    if (path)
        program = spawn_look_at(path);
    free(path);
    request->is_foreign = program.is_foreign;
    look_at_preloads(request, &preloads);
    request->frameworks = framework_find(request->command, getenv("PATH"), getenv("PYTHONPATH"),
            request->directory, getenv("HOME"));
    int r = launch_prepare(request, ret_launch);
    request->front = NULL;
    request->others = NULL;
    vec_free_texts(&preloads.others);
    free(preloads.front);
    for (size_t i = 0; i < ret_launch->lines.count; i++)
        (void)fprintf(stderr, "%s: %s\n", who, ret_launch->lines.at[i]);
    if (r < 0) {
        launch_done(ret_launch);
        return CMD_CANNOT;
    }
    return 0;
}

/*
 * Whether it is one of the words of the form, which "|" separates. A missing value, or one of keys
 * alone (mb=512), is left to the library.
 */
static bool is_word_of(const char *who, const char *option, const char *text, const char *form)
{
    size_t length = text ? strcspn(text, ",") : 0;

    if (!text || memchr(text, '=', length))
        return true;
    for (const char *word = form; word; word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL)
        if (strcspn(word, "|") == length && strncmp(word, text, length) == 0)
            return true;
    (void)fprintf(stderr, "%s: --%s %s: %s\n", who, option, text, form);
    return false;
}

static int spawn_check_options(
        const char *who, const struct spawn_options *options, enum launch_api *ret_api)
{
    static const char *const forms[] = {
#define OPTION(id, name, kind, def, form, help) [CONFIG_##id] = (form),
#include "tracker/base/options.def"
    };
    static const char *const apis[] = {[LAUNCH_STREAM] = "stream",
            [LAUNCH_SYNC] = "sync",
            [LAUNCH_FRAMEWORK] = "framework",
            NULL};

    if (!is_word_of(who, "mode", options->mode, forms[CONFIG_MODE])
            || !is_word_of(who, "hints-mode", options->hints_mode, forms[CONFIG_HINTS_MODE])
            || !is_word_of(who, "trace", options->trace, forms[CONFIG_TRACE]))
        return CMD_BAD;
    int api = args_choose(who, "api", options->api, apis);
    if (api < 0)
        return CMD_BAD;
    *ret_api = (enum launch_api)api;
    if (options->hints && strcmp(options->hints, "off") != 0 && access(options->hints, R_OK) != 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", who, options->hints, strerror(errno));
        return CMD_BAD;
    }
    return 0;
}

int spawn_prepare(const char *who, const struct spawn_options *options, char *const *command,
        struct launch *ret_launch)
{
    struct launch_request request = {
            .command = command,
            .env = environ,
            .run = options->run,
            .capture = options->capture,
            .hints = options->hints,
            .hints_mode = options->hints_mode,
            .mode = options->mode,
            .trace = options->trace,
            .is_api_stated = options->api != NULL,
            .is_silent = options->is_silent,
    };
    int r = spawn_check_options(who, options, &request.api);

    if (r)
        return r;
    char *library = spawn_find_library();
    if (!library) {
        if (access("/proc/self/exe", F_OK) != 0)
            (void)fprintf(stderr,
                    "%s: /proc is not there (not mounted?): kedge finds its files by "
                    "/proc/self/exe\n",
                    who);
        else
            (void)fprintf(stderr,
                    "%s: libkedge.so is neither beside kedge nor in " KEDGE_FOLDER "\n", who);
        return CMD_CANNOT;
    }
    char *sim = options->sim ? find_sim(who) : NULL;
    char *directory = getcwd(NULL, 0);
    request.library = library;
    request.sim = sim;
    request.directory = directory ? directory : ".";
    r = options->sim && !sim ? CMD_CANNOT : spawn_prepare_launch(who, &request, ret_launch);
    free(library);
    free(sim);
    free(directory);
    return r;
}

bool spawn_is_kedge(const char *program)
{
    char *path = framework_program(program, getenv("PATH"), ".");
    char *real = path ? realpath(path, NULL) : NULL;
    char *own = realpath("/proc/self/exe", NULL);
    bool is_kedge = real && own && strcmp(real, own) == 0;

    free(path);
    free(real);
    free(own);
    return is_kedge;
}

/* Whether the loader ignores LD_PRELOAD for the file: because of its owner or its capabilities. */
static bool is_privileged(const char *path)
{
    struct stat about;

    return (stat(path, &about) == 0 && (about.st_mode & (S_ISUID | S_ISGID)))
            || getxattr(path, "security.capability", NULL, 0) > 0;
}

char *spawn_why_without(const char *program)
{
    char *path = framework_program(program, getenv("PATH"), ".");
    struct spawn_program file = path ? spawn_look_at(path) : (struct spawn_program){0};
    struct spawn_program own = spawn_look_at("/proc/self/exe");
    const char *why = NULL;

    if (path && is_privileged(path))
        why = "runs with other rights than its caller's (setuid or file capabilities)";
    else if (file.is_static)
        why = "is linked statically";
    else if (file.is_foreign)
        why = "needs another C library than libkedge.so";
    else if (file.is_elf && own.is_elf
            && (file.machine != own.machine || file.is_wide != own.is_wide))
        why = "is built for another kind of processor than libkedge.so";
    free(path);
    return why ? vec_format("%s %s, and LD_PRELOAD does not reach it", program, why) : NULL;
}

/* Whether a process was started with the run's number in its environment. */
static bool is_of_run(pid_t pid, const char *run)
{
    char *path = vec_format("/proc/%d/environ", pid);
    char *wanted = vec_format("%s=%s", CONFIG_RUN, run);
    FILE *in = fopen(path, "re");
    char *entry = NULL;
    size_t room = 0;
    bool found = false;

    while (in && !found && getdelim(&entry, &room, '\0', in) > 0)
        found = strncmp(entry, wanted, strlen(wanted)) == 0;
    if (in)
        (void)fclose(in);
    free(entry);
    free(wanted);
    free(path);
    return found;
}

int spawn_still_runs(const char *run)
{
    DIR *all = opendir("/proc");
    pid_t pid;

    do {
        pid = tree_next(all);
    } while (pid > 0 && !is_of_run(pid, run));
    if (all)
        (void)closedir(all);
    return pid;
}

/* Prints execvpe's error, with the program's name. */
static int spawn_complain(const char *who, const char *program, int error)
{
    (void)fprintf(stderr, "%s: %s: %s\n", who, program, strerror(error));
    return CMD_BAD;
}

/* The exit status for a program that cannot be started, as in `env` and shells. */
static int start_status(int error)
{
    return error == ENOENT || error == ENOTDIR ? 127 : 126;
}

int spawn_become(const char *who, const struct launch *launch)
{
    (void)fflush(NULL);
    (void)execvpe(launch->argv[0], launch->argv, launch->env);
    int error = errno;
    (void)spawn_complain(who, launch->argv[0], error);
    return start_status(error);
}

int spawn_check(const char *who, const char *program)
{
    char *path = framework_program(program, getenv("PATH"), ".");
    struct stat status;
    int error = 0;

    if (!path || stat(path, &status) != 0)
        error = path && errno != ENOENT ? errno : ENOENT;
    else if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0)
        error = EACCES;
    free(path);
    if (error == 0)
        return 0;
    (void)spawn_complain(who, program, error);
    return start_status(error);
}

void spawn_new_run(char *to, size_t size)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number)) {
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        number = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 16 ^ (uint64_t)getpid();
    }
    (void)snprintf(to, size, "%016" PRIx64, number);
}

/*
 * Checks the folder of a capture, which the library would miss only at the first call of CUDA;
 * false after a line on stderr.
 */
static bool spawn_has_folder(const char *who, const char *capture)
{
    const char *rest;
    char *folder = captures_folder(capture, &rest);
    bool is_pattern =
            strchr(rest, '/') != NULL; /* folders of processes and ranks, which these may create */
    bool is_there = is_pattern || !*folder || access(folder, W_OK | X_OK) == 0;

    if (!is_there)
        render_print(stderr, "%s: --capture %s: %s\n", who, capture, strerror(errno));
    free(folder);
    return is_there;
}

int spawn_look_for_old(const char *who, const char *capture, struct spawn_old *ret_old)
{
    const char *rank = config_rank(environ);
    bool is_first = !rank || rank[strspn(rank, "0")] == '\0';
    struct format_header header;

    *ret_old = (struct spawn_old){0};
    if (!capture)
        return CMD_DONE;
    if (!spawn_has_folder(who, capture))
        return CMD_BAD;
    if (strchr(capture, '%'))
        return CMD_DONE;
    char *file = is_first ? vec_text(capture) : vec_format("%s.%s", capture, rank);
    switch (capold_look(file, &header)) {
    case CAPOLD_OTHER:
        (void)fprintf(stderr, "%s: %s is there and is no capture\n", who, file);
        free(file);
        return CMD_BAD;
    case CAPOLD_LIVE:
        (void)fprintf(stderr,
                "%s: process %" PRIu32
                " still writes %s; the capture of this run gets the name %s.PID\n",
                who, header.pid, file, file);
        break;
    default:
        (void)memcpy(ret_old->run, header.run, sizeof(ret_old->run) - 1);
    }
    ret_old->file = file;
    return CMD_DONE;
}

/* The text after ".NUMBER", or NULL if another number is there. */
static const char *behind_number(const char *name, const char *number)
{
    size_t length = strlen(number);

    return *name == '.' && length > 0 && strncmp(name + 1, number, length) == 0
                    && !isdigit((unsigned char)name[1 + length])
            ? name + 1 + length
            : NULL;
}

/* .RANK, .PID, .RANK.PID, and one more number if such a name was taken, as in capture.c. */
static bool is_named_by_library(const char *name, const struct format_header *header)
{
    char pid[16];
    const char *rest = behind_number(name, header->rank);

    (void)snprintf(pid, sizeof(pid), "%" PRIu32, header->pid);
    if (rest && *rest == '\0')
        return true;
    rest = behind_number(rest ? rest : name, pid);
    return rest && (*rest == '\0' || strchr(rest + 1, '.') == NULL);
}

struct clear {
    const struct spawn_old *old;
    size_t length; /* of its file's name */
};

static void spawn_clear_one(void *self, const char *path)
{
    const struct clear *clear = self;
    struct format_header header;

    if (capold_look(path, &header) == CAPOLD_ENDED
            && strncmp(header.run, clear->old->run, sizeof(header.run)) == 0
            && is_named_by_library(path + clear->length, &header))
        (void)unlink(path);
}

void spawn_clear_old(struct spawn_old *old, const char *run)
{
    struct format_header header;

    if (old->file && old->run[0] && captures_read_header(old->file, &header)
            && strncmp(header.run, run, sizeof(header.run)) == 0) {
        char *name = captures_quote(old->file);
        captures_each(name, spawn_clear_one, &(struct clear){old, strlen(old->file)});
        free(name);
    }
    free(old->file);
    *old = (struct spawn_old){0};
}

int spawn_wait(const char *who, const struct launch *launch, struct echo *echo, int *ret_status)
{
    pid_t own = getpid();

    (void)fflush(NULL);
    tree_watch();
    pid_t child = fork();
    if (child < 0)
        return spawn_complain(who, launch->argv[0], errno);
    if (child == 0) {
        tree_child(own);
        if (echo)
            echo_child(echo);
        _exit(spawn_become(who, launch));
    }
    if (echo)
        echo_parent(echo);
    *ret_status = tree_wait(child);
    return tree_signal() ? 128 + tree_signal() : 0;
}
