/* SPDX-License-Identifier: MIT */
/*
 * A name that only this library exports, by which another copy of it and `kedge run` recognise it.
 * Any thread.
 */
#include "preload/anchors/source.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"

#pragma GCC visibility push(default)
/* The anchors wanted of Python programs (source_python_level). Constant in a process. */
int kedge_python_level(void);
#pragma GCC visibility pop

int kedge_python_level(void)
{
    resolve_note_export(EXPORT_kedge_python_level);
    return source_wants(SOURCE_PYTHON) ? source_python_level(life_config()) : 0;
}
