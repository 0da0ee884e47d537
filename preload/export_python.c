/* SPDX-License-Identifier: MIT */
/*
 * The exports of kedge's Python module (tools/python), which finds them by ctypes in its own process: a name that we alone
 * export, so that the module does nothing where the library is not. Names are copied. Any thread; errno is kept.
 */
#include "preload/life.h"
#include "preload/resolve.h"
#include "preload/source.h"
#include "tracker/config.h"

#pragma GCC visibility push(default)
/* What is wanted: 0 nothing, 1 the phases of a training loop, 2 modules by name, too. Constant in a process. */
int kedge_python_level(void);
/* Ranges of this thread. `step`: nested in nothing, whatever is open. Leaving names the range that is innermost. */
void kedge_python_enter(const char *name);
void kedge_python_step(const char *name);
void kedge_python_leave(const char *name);
#pragma GCC visibility pop

int kedge_python_level(void)
{
    enum {
        MODULES = 2 /* of "off|steps|modules" */
    };
    const struct config_value *key = config_key(life_config(), CONFIG_ANCHORS, "python");

    resolve_note_export(EXPORT_kedge_python_level);
    if (!source_wants(SOURCE_PYTHON))
        return 0;
    return key && key->set && key->number == MODULES ? 2 : 1;
}

void kedge_python_enter(const char *name)
{
    resolve_note_export(EXPORT_kedge_python_enter);
    if (source_wants(SOURCE_PYTHON))
        source_enter_python(name);
}

void kedge_python_step(const char *name)
{
    resolve_note_export(EXPORT_kedge_python_step);
    if (source_wants(SOURCE_PYTHON))
        source_enter_step(name);
}

void kedge_python_leave(const char *name)
{
    resolve_note_export(EXPORT_kedge_python_leave);
    if (source_wants(SOURCE_PYTHON))
        source_leave_python(name);
}
