/* SPDX-License-Identifier: MIT */
#include "tools/run/framework.h"

#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tracker/base/script.h"

#define TEXT_MAX ((size_t)1 << 20)

static const struct {
    const char *name, *module, *distribution;
    bool has_kinds; /* paddlepaddle-gpu, tensorflow-cpu */
} frameworks[FRAMEWORK_COUNT] = {
        [FRAMEWORK_PYTORCH] = {"PyTorch", "torch", "torch", false},
        [FRAMEWORK_TENSORFLOW] = {"TensorFlow", "tensorflow", "tensorflow", true},
        [FRAMEWORK_JAX] = {"JAX", "jax", "jax", false},
        [FRAMEWORK_PADDLE] = {"PaddlePaddle", "paddle", "paddlepaddle", true},
};

const char *framework_name(enum framework which)
{
    return frameworks[which].name;
}

struct search {
    struct vec_texts local;    /* folders of the program's own modules */
    struct vec_texts sites;    /* folders of installed packages */
    struct vec_texts files;    /* still to read, and already read */
    struct vec_texts packages; /* already read */
    unsigned which;
    struct needs own;
};

static bool is_file(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool framework_is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The folder so many levels above a file. */
static char *above(const char *path, size_t levels)
{
    char *folder = vec_text(path);

    for (; levels > 0; levels--) {
        char *slash = strrchr(folder, '/');
        if (!slash) {
            free(folder);
            return vec_text(".");
        }
        slash[slash == folder] = '\0';
    }
    return folder;
}

/* The beginning of a file as text, NULL if it cannot be read. */
static char *framework_text_of(const char *path, size_t most)
{
    FILE *file = is_file(path) ? fopen(path, "re") : NULL;
    char *text;

    if (!file)
        return NULL;
    text = vec_new(most + 1, 1);
    text[fread(text, 1, most, file)] = '\0';
    (void)fclose(file);
    return text;
}

static void add_list(struct vec_texts *names, const char *list, const char *directory)
{
    int length;

    for (const char *s = list ? list : ""; *s; s += length + (s[length] == ':')) {
        length = (int)strcspn(s, ":");
        if (*s == '/')
            (void)vec_add_once(names, vec_format("%.*s", length, s));
        else if (length > 0)
            (void)vec_add_once(names, vec_format("%s/%.*s", directory, length, s));
    }
}

/* ---- packages ------------------------------------------------------------------------------- */

/*
 * Compares a distribution's name with its folder's spelling: huggingface-hub is in
 * huggingface_hub-1.0.dist-info.
 */
static bool is_same_name(const char *entry, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        int a = tolower((unsigned char)entry[i]);
        int b = tolower((unsigned char)name[i]);

        if (a != b && !(strchr("-_.", a) && strchr("-_.", b) && a))
            return false;
    }
    return true;
}

/*
 * The dist-info of a package, with the version after the first '-'. With `begins` the name may
 * continue. NULL: there is none.
 */
static char *dist_info(const char *site, const char *name, bool begins)
{
    size_t length = strlen(name);
    DIR *folder = opendir(site);
    char *found = NULL;
    const struct dirent *entry;

    while (folder && !found && (entry = readdir(folder)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        size_t dash = strcspn(entry->d_name, "-");

        if (end && strcmp(end, ".dist-info") == 0 && (begins ? dash >= length : dash == length)
                && is_same_name(entry->d_name, name, length))
            found = vec_format("%s/%s", site, entry->d_name);
    }
    if (folder)
        (void)closedir(folder);
    return found;
}

/* Whether its module is there as a folder, or in the form of an editable installation. */
static bool framework_is_in(const char *site, enum framework which)
{
    char *folder = vec_format("%s/%s", site, frameworks[which].module);
    char *info = dist_info(site, frameworks[which].distribution, frameworks[which].has_kinds);
    bool found = framework_is_folder(folder) || info;

    free(info);
    free(folder);
    return found;
}

static bool framework_is_installed(const struct search *search, enum framework which)
{
    bool found = false;

    for (size_t i = 0; i < search->sites.count && !found; i++)
        found = framework_is_in(search->sites.at[i], which);
    for (size_t i = 0; i < search->local.count && !found; i++)
        found = framework_is_in(search->local.at[i], which);
    return found;
}

/* Whether a line of METADATA requires this framework. */
static bool wants(const char *requirement, enum framework which)
{
    size_t length = strlen(frameworks[which].distribution);
    size_t word = strcspn(requirement, " ;<>=!~([,\n");

    return word >= length && is_same_name(requirement, frameworks[which].distribution, length)
            && (word == length || (frameworks[which].has_kinds && requirement[length] == '-'));
}

/* The installed packages that a package requires, or can use. */
static void look_at_package(struct search *search, const char *site, const char *name)
{
    static const char key[] = "Requires-Dist: ";
    char *folder = dist_info(site, name, false);
    char *file = folder ? vec_format("%s/METADATA", folder) : NULL;
    char *text = file ? framework_text_of(file, TEXT_MAX) : NULL;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, sizeof(key) - 1) != 0)
            continue;
        for (unsigned f = 0; f < FRAMEWORK_COUNT; f++) {
            if (wants(line + sizeof(key) - 1, f) && framework_is_installed(search, f))
                search->which |= 1U << f;
        }
    }
    free(text);
    free(file);
    free(folder);
}

/* ---- imports -------------------------------------------------------------------------------- */

/* The files of a module of the program's own, its parent packages first. True if there is any. */
static bool add_files(struct search *search, const char *folder, const char *module)
{
    static const char *const ends[] = {".py", "/__init__.py", "/__main__.py"};
    char *path = vec_text(module);
    bool found = false;

    for (char *dot = path; dot;) {
        dot = strchr(dot, '.');
        if (dot)
            *dot = '\0';
        for (size_t i = 0; i < CMD_COUNT(ends); i++) {
            char *file = vec_format("%s/%s%s", folder, path, ends[i]);
            if (!is_file(file)) {
                free(file);
                continue;
            }
            (void)vec_add_once(&search->files, file);
            found = true;
        }
        if (dot)
            *dot++ = '/';
    }
    free(path);
    return found;
}

/* A module by its dotted name. Leading dots go up from the file's folder. */
static void look_at_module(struct search *search, const char *file, const char *module)
{
    size_t dots = strspn(module, ".");
    bool is_own = dots > 0;

    if (is_own && module[dots]) {
        char *folder = above(file, dots);
        (void)add_files(search, folder, module + dots);
        free(folder);
    }
    if (is_own)
        return;
    char *name = vec_format("%.*s", (int)strcspn(module, "."), module);
    for (unsigned f = 0; f < FRAMEWORK_COUNT && !is_own; f++) {
        is_own = strcmp(name, frameworks[f].module) == 0;
        search->which |= is_own ? 1U << f : 0;
    }
    for (size_t i = 0; i < search->local.count && !is_own; i++)
        is_own = add_files(search, search->local.at[i], module);
    if (!is_own && vec_add_once(&search->packages, vec_text(name))) {
        for (size_t i = 0; i < search->sites.count; i++)
            look_at_package(search, search->sites.at[i], name);
    }
    free(name);
}

static size_t word_length(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
        n++;
    return n;
}

/* The text after this word and blanks; NULL: the text begins with another word. */
static const char *behind(const char *s, const char *word)
{
    size_t length = strlen(word);

    if (word_length(s) != length || strncmp(s, word, length) != 0)
        return NULL;
    return s + length + strspn(s + length, " \t");
}

/*
 * "import a, b as c", "from module import a, b": names imported from a module may be modules, too.
 * `file` NULL: the text of -c.
 */
static void look_at_statement(struct search *search, const char *file, const char *s)
{
    const char *from = behind(s, "from");
    int base = from ? (int)word_length(from) : 0;

    if (from)
        s = from + base + strspn(from + base, " \t");
    s = behind(s, "import");
    if (!s)
        return;
    file = file ? file : ".";
    if (base > 0) {
        char *module = vec_format("%.*s", base, from);
        look_at_module(search, file, module);
        free(module);
    }
    for (s += strspn(s, "("); word_length(s) > 0; s += strspn(s, " \t,(")) {
        int length = (int)word_length(s);
        const char *dot = base > 0 && from[base - 1] != '.' ? "." : "";
        char *module = vec_format("%.*s%s%.*s", base, from ? from : "", dot, length, s);
        look_at_module(search, file, module);
        free(module);
        s += length;
        s += strspn(s, " \t");
        const char *alias = behind(s, "as");
        if (alias)
            s = alias + word_length(alias) + strspn(alias + word_length(alias), " \t");
        if (*s != ',')
            break;
    }
}

/* Statements begin a line or follow a ';'. */
static void look_at_text(struct search *search, const char *file, const char *text)
{
    needs_look(&search->own, file, text);
    for (const char *s = text; *s; s += strcspn(s, "\n;"), s += *s != '\0') {
        s += strspn(s, " \t\r");
        look_at_statement(search, file, s);
    }
}

/* ---- the interpreter ------------------------------------------------------------------------ */

char *framework_program(const char *word, const char *path, const char *directory)
{
    char *refused = NULL;

    if (strchr(word, '/'))
        return *word == '/' ? vec_text(word) : vec_format("%s/%s", directory, word);
    for (const char *s = path ? path : "/usr/local/bin:/bin:/usr/bin"; *word && *s;) {
        size_t n = strcspn(s, ":");
        char *file = vec_format("%.*s/%s", (int)n, n ? s : ".", word);
        if (is_file(file) && access(file, X_OK) == 0) {
            free(refused);
            return file;
        }
        if (!refused && access(file, F_OK) == 0)
            refused = file;
        else
            free(file);
        s += n;
        s += *s == ':';
    }
    return refused;
}

static bool framework_is_interpreter(const char *word)
{
    return script_is_python(script_base(word));
}

/* The interpreter that a script's first line names, NULL if it is not Python. */
static char *interpreter_of(const char *script, const char *path, const char *directory)
{
    char *text = framework_text_of(script, 256);
    char *found = NULL;

    if (text && strncmp(text, "#!", 2) == 0) {
        char *rest = NULL;
        text[strcspn(text, "\n")] = '\0';
        for (char *word = strtok_r(text + 2, " \t", &rest); word && !found;
                word = strtok_r(NULL, " \t", &rest)) {
            if (framework_is_interpreter(word))
                found = framework_program(word, path, directory);
        }
    }
    free(text);
    return found;
}

/*
 * The folders that a site's .pth files name (Python's site module): how an editable installation and
 * one environment above another are found. Lines that begin with import are code.
 */
static void add_named_folders(struct search *search, const char *site)
{
    char *pattern = vec_format("%s/*.pth", site);
    glob_t found = {0};

    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *text = framework_text_of(found.gl_pathv[i], TEXT_MAX);
            char *rest = text;
            char *line;

            while (rest && (line = strsep(&rest, "\r\n")) != NULL) {
                char *path = *line == '/' ? vec_text(line) : vec_format("%s/%s", site, line);

                if (*line && *line != '#' && framework_is_folder(path))
                    (void)vec_add_once(&search->sites, path);
                else
                    free(path);
            }
            free(text);
        }
    }
    globfree(&found);
    free(pattern);
}

/*
 * site-packages and Debian's dist-packages below a prefix. Without a version those of all versions.
 */
static void framework_add_sites(struct search *search, const char *prefix, const char *version)
{
    char *pattern = vec_format(
            "%s/lib/{python3,python%s}/{site,dist}-packages", prefix, version ? version : "3.*");
    glob_t found = {0};

    if (glob(pattern, GLOB_BRACE | GLOB_ONLYDIR, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            if (!framework_is_folder(found.gl_pathv[i]))
                continue;
            (void)vec_add_once(&search->sites, vec_text(found.gl_pathv[i]));
            add_named_folders(search, found.gl_pathv[i]);
        }
    }
    globfree(&found);
    free(pattern);
}

/*
 * The package folders of an interpreter: its environment's, and those of the base installation if
 * the environment uses them.
 */
static void add_environment(struct search *search, const char *interpreter, const char *home)
{
    char *prefix = above(interpreter, 2);
    char *file = vec_format("%s/pyvenv.cfg", prefix);
    char *config = framework_text_of(file, 4096);
    char *real = realpath(interpreter, NULL);

    if (config)
        framework_add_sites(search, prefix, NULL);
    if (real && (!config || strstr(config, "include-system-site-packages = true"))) {
        const char *name = strrchr(real, '/') + 1;
        const char *version = framework_is_interpreter(real) && strchr(name, '.') ? name + 6 : NULL;
        char *base = above(real, 2);
        char *prefixes[] = {vec_text(base), vec_format("%s/local", base),
                vec_format("%s/.local", home ? home : "/nowhere")};
        for (size_t i = 0; i < CMD_COUNT(prefixes); i++) {
            framework_add_sites(search, prefixes[i], version);
            free(prefixes[i]);
        }
        free(base);
    }
    free(real);
    free(config);
    free(file);
    free(prefix);
}

/* A script, or a folder with a __main__. False: there is no such file. */
static bool look_at_script(struct search *search, const char *script, const char *directory)
{
    char *path = *script == '/' ? vec_text(script) : vec_format("%s/%s", directory, script);
    char *file = framework_is_folder(path) ? vec_format("%s/__main__.py", path) : vec_text(path);

    free(path);
    if (!is_file(file)) {
        free(file);
        return false;
    }
    (void)vec_add_once(&search->local, above(file, 1));
    (void)vec_add_once(&search->files, file);
    return true;
}

/* Finds the code that an interpreter, the first word, is to run. */
static void look_at_arguments(struct search *search, char *const *words, const char *directory)
{
    struct script script;
    size_t count = 0;

    while (words[count])
        count++;
    script = script_find((const char *const *)words, count);
    if (script.kind != SCRIPT_FILE || script.runner)
        (void)vec_add_once(&search->local, vec_text(directory));
    if (script.runner && !look_at_script(search, script.runner, directory))
        look_at_module(search, ".", script.runner);
    if (script.kind == SCRIPT_CODE)
        look_at_text(search, NULL, script.text);
    else if (script.kind == SCRIPT_MODULE)
        look_at_module(search, ".", script.text);
    else if (script.kind == SCRIPT_FILE)
        (void)look_at_script(search, script.text, directory);
}

static int major_of(const struct search *search, enum framework which)
{
    int major = 0;

    for (size_t i = 0; i < search->sites.count && major == 0; i++) {
        char *folder = dist_info(search->sites.at[i], frameworks[which].distribution, true);
        const char *dash = folder ? strchr(strrchr(folder, '/'), '-') : NULL;
        major = dash ? (int)strtol(dash + 1, NULL, 10) : 0;
        free(folder);
    }
    return major;
}

/*
 * The installed ones: an import may be conditional. If the interpreter's packages are unknown, all
 * imports count.
 */
static unsigned that_are_there(const struct search *search)
{
    unsigned which = 0;

    for (unsigned f = 0; f < FRAMEWORK_COUNT; f++) {
        if (search->which & 1U << f
                && (search->sites.count == 0 || framework_is_installed(search, f)))
            which |= 1U << f;
    }
    return which;
}

static void framework_search(struct search *search, char *const *command, const char *path,
        const char *pythonpath, const char *directory, const char *home)
{
    char *interpreter = NULL;
    size_t at = 0;

    while (command[at] && !framework_is_interpreter(command[at]))
        at++;
    if (command[at])
        interpreter = framework_program(command[at], path, directory);
    for (size_t i = 0; !command[at] && command[i] && !interpreter; i++) {
        char *script = *command[i] == '-' ? NULL : framework_program(command[i], path, directory);
        interpreter = script ? interpreter_of(script, path, directory) : NULL;
        if (interpreter) {
            (void)vec_add_once(&search->local, above(script, 1));
            (void)vec_add_once(&search->files, vec_text(script));
        }
        free(script);
    }
    if (interpreter) {
        add_list(&search->local, pythonpath, directory);
        add_environment(search, interpreter, home);
        if (command[at])
            look_at_arguments(search, command + at, directory);
        for (size_t i = 0; i < search->files.count && i < FRAMEWORK_FILES_MAX; i++) {
            char *text = framework_text_of(search->files.at[i], TEXT_MAX);
            if (text)
                look_at_text(search, search->files.at[i], text);
            free(text);
        }
    }
    free(interpreter);
}

static void framework_search_done(struct search *search)
{
    vec_free_texts(&search->local);
    vec_free_texts(&search->sites);
    vec_free_texts(&search->files);
    vec_free_texts(&search->packages);
}

struct framework_found framework_find(char *const *command, const char *path,
        const char *pythonpath, const char *directory, const char *home)
{
    struct search search = {0};
    struct framework_found found = {0};

    framework_search(&search, command, path, pythonpath, directory, home);
    found.which = that_are_there(&search);
    if (found.which & 1U << FRAMEWORK_PADDLE)
        found.paddle_major = major_of(&search, FRAMEWORK_PADDLE);
    if (found.which & 1U << FRAMEWORK_PYTORCH)
        found.own = search.own;
    framework_search_done(&search);
    return found;
}

struct vec_texts framework_files(
        char *const *command, const char *path, const char *pythonpath, const char *directory)
{
    struct search search = {0};
    struct vec_texts files;

    framework_search(&search, command, path, pythonpath, directory, NULL);
    files = search.files;
    search.files = (struct vec_texts){0};
    framework_search_done(&search);
    return files;
}
