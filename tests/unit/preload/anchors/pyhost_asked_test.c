/* SPDX-License-Identifier: MIT */
/* covers: pyhost.c */
/* Which interpreters are watched, and that what is asked of one leaves its counts of references as they were. */
#include "preload/anchors/pyhost.h"
#include "preload/anchors/pyparts.h"
#include "preload/anchors/source.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

/* ---- what pyhost.c calls -------------------------------------------------------------------- */

void pyparts_look(void)
{
}

void pyparts_look_for_classes(void)
{
}

void pyparts_forget(void)
{
}

void pyloop_enter(struct pyloop_call *call, enum pyloop_kind kind, bool trains, uintptr_t who)
{
    (void)call;
    (void)kind;
    (void)trains;
    (void)who;
}

void pyloop_leave(struct pyloop_call *call, bool is_failed)
{
    (void)call;
    (void)is_failed;
}

bool pyloop_may_open(enum pyloop_kind kind)
{
    (void)kind;
    return false;
}

bool pyloop_in_forward(void)
{
    return false;
}

void *pyloop_inner(void)
{
    return NULL;
}

void pyloop_set_inner(void *inner)
{
    (void)inner;
}

void source_enter_python(const char *name)
{
    (void)name;
}

void source_leave_python(const char *name)
{
    (void)name;
}

/* ---- an interpreter ------------------------------------------------------------------------- */

struct pyhost_object {
    intptr_t references;
    struct pyhost_object *type;
    intptr_t unused[2];
    intptr_t basic_size; /* of a type's objects */
    intptr_t is_type;
};

static struct pyhost_object type = {.type = &type, .is_type = 1};
static struct pyhost_object base_type = {.type = &type, .basic_size = 16, .is_type = 1};
static struct pyhost_object plain_type = {.type = &type, .is_type = 1};
static struct pyhost_object plain = {.type = &plain_type};
static struct pyhost_object dict, text, found, exception_class;
static struct pyhost_object *exception = &exception_class;
static const char *version;
static const char *lacking;    /* the interpreter has no such name */
static const char *member;     /* the one that dicts and classes have */
static unsigned hooks, errors; /* audit hooks; exceptions that are still there */

static struct pyhost_object *new_reference(struct pyhost_object *of)
{
    of->references++;
    return of;
}

static const char *get_version(void)
{
    return version;
}

static int add_audit_hook(void *hook, void *data)
{
    CHECK(hook != NULL);
    CHECK(data == NULL);
    hooks++;
    return 0;
}

static int is_initialized(void)
{
    return 0;
}

static struct pyhost_object *type_of(struct pyhost_object *of)
{
    return new_reference(of->type);
}

static int is_subtype(struct pyhost_object *of, struct pyhost_object *other)
{
    return of == other;
}

static struct pyhost_object *get_dict(struct pyhost_object *of, void *context)
{
    (void)context;
    CHECK(!of->is_type);
    return new_reference(&dict);
}

static struct pyhost_object *get_item(struct pyhost_object *of, const char *name)
{
    CHECK(of == &dict);
    return strcmp(name, member) == 0 ? &found : NULL;
}

static struct pyhost_object *get_item_by_key(struct pyhost_object *of, struct pyhost_object *key)
{
    CHECK(of == &dict);
    CHECK(key == &text);
    return text.unused[0] ? &found : NULL;
}

static struct pyhost_object *intern(const char *name)
{
    text.unused[0] = strcmp(name, member) == 0;
    return new_reference(&text);
}

static struct pyhost_object *look_up(struct pyhost_object *of, struct pyhost_object *name)
{
    CHECK(of->is_type);
    CHECK(name == &text);
    errors += !text.unused[0]; /* one of a wrong interpreter */
    return text.unused[0] ? &found : NULL;
}

static struct pyhost_object *occurred(void)
{
    return errors ? exception : NULL;
}

static int matches(struct pyhost_object *class)
{
    return class == exception;
}

static void clear(void)
{
    errors = 0;
}

static void add_reference(struct pyhost_object *of)
{
    of->references++;
}

static void drop_reference(struct pyhost_object *of)
{
    of->references--;
}

static void *asked_for_nothing(void)
{
    CHECK(false);
    return NULL;
}

#define FUNCTION(name, function)            \
    {                                       \
        name, (void *)(uintptr_t)(function) \
    }
static const struct {
    const char *name;
    void *at;
} names[] = {
        FUNCTION("Py_GetVersion", get_version),
        FUNCTION("PySys_AddAuditHook", add_audit_hook),
        FUNCTION("Py_IsInitialized", is_initialized),
        FUNCTION("PyGILState_Check", asked_for_nothing),
        FUNCTION("PyInterpreterState_Get", asked_for_nothing),
        FUNCTION("PyInterpreterState_Main", asked_for_nothing),
        FUNCTION("PyImport_GetModuleDict", asked_for_nothing),
        FUNCTION("PyModule_GetDict", asked_for_nothing),
        FUNCTION("PyDict_GetItemString", get_item),
        FUNCTION("PyDict_GetItemWithError", get_item_by_key),
        FUNCTION("PyDict_Next", asked_for_nothing),
        FUNCTION("PyObject_GetAttrString", asked_for_nothing),
        FUNCTION("PyObject_GenericGetDict", get_dict),
        FUNCTION("PyObject_Type", type_of),
        FUNCTION("PyType_IsSubtype", is_subtype),
        FUNCTION("_PyType_Lookup", look_up),
        FUNCTION("PyObject_IsTrue", asked_for_nothing),
        FUNCTION("PyObject_CallObject", asked_for_nothing),
        FUNCTION("PyObject_CallFunctionObjArgs", asked_for_nothing),
        FUNCTION("PyObject_CallMethod", asked_for_nothing),
        FUNCTION("PyUnicode_InternFromString", intern),
        FUNCTION("PyList_Size", asked_for_nothing),
        FUNCTION("PyList_GetItem", asked_for_nothing),
        FUNCTION("PyUnicode_AsUTF8", asked_for_nothing),
        FUNCTION("PyErr_Occurred", occurred),
        FUNCTION("PyErr_ExceptionMatches", matches),
        FUNCTION("PyErr_Clear", clear),
        FUNCTION("Py_IncRef", add_reference),
        FUNCTION("Py_DecRef", drop_reference),
        {"PyType_Type", &type},
        {"PyFunction_Type", &plain_type},
        {"PyCFunction_Type", &plain_type},
        {"PyMethodDescr_Type", &plain_type},
        {"PyDict_Type", &plain_type},
        {"PyBaseObject_Type", &base_type},
        {"_Py_NoneStruct", &plain},
        {"_Py_TrueStruct", &plain},
        {"_Py_FalseStruct", &plain},
        {"PyExc_Exception", &exception},
};

static void *symbol(void *handle, const char *name)
{
    (void)handle;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0 && (!lacking || strcmp(lacking, name) != 0))
            return names[i].at;
    return NULL;
}

void *(*resolve_real_dlsym(void))(void *, const char *)
{
    return symbol;
}

/* ---- which one ------------------------------------------------------------------------------ */

static unsigned watched(const char *its_version)
{
    version = its_version;
    hooks = 0;
    pyhost_start(false,
            &(struct pyhost_parts){
                    pyparts_look, pyparts_look_for_classes, pyparts_forget, NULL, NULL, NULL});
    return hooks;
}

TEST(an_interpreter_that_lacks_anything_that_is_called_is_left_alone)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lacking = names[i].name;
        if (watched("3.11.2 (main)") != 0)
            printf("    %s\n", lacking);
        CHECK_EQ(hooks, 0);
    }
    lacking = NULL;
    CHECK_EQ(watched("3.11.2 (main)"), 1);
}

TEST(an_interpreter_of_another_shape_is_left_alone)
{
    static const char *const known[] = {"3.10.0 (main)", "3.13.1 (main)", "3.15.0 (main)"};
    static const char *const unknown[] = {"3.9.18 (main)", "3.16.0 (main)", "2.7.18", "4.11.0", "",
            "3.", "3.13.0 experimental free-threading build (main)"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_EQ(watched(known[i]), 1);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK_EQ(watched(unknown[i]), 0);
    base_type.basic_size = 32; /* it counts references in another way */
    CHECK_EQ(watched("3.11.2 (main)"), 0);
}

/* ---- what is asked -------------------------------------------------------------------------- */

TEST(what_is_asked_of_an_object_takes_no_reference)
{
    REQUIRE_EQ(watched("3.11.2 (main)"), 1);
    member = "step";
    CHECK(pyhost_in_class(&plain_type, "step") == &found);
    CHECK(pyhost_in_class(&plain_type, "stop") == NULL);
    CHECK(pyhost_in_class(&plain, "step") == NULL); /* no class */
    CHECK(pyhost_own(&plain, "step") == &found);
    CHECK(pyhost_own(&plain, "stop") == NULL);
    CHECK(pyhost_own(&plain_type, "step") == NULL); /* no object */
    CHECK_EQ(errors, 0);
    CHECK_EQ(type.references, 0);
    CHECK_EQ(plain_type.references, 0);
    CHECK_EQ(plain.references, 0);
    CHECK_EQ(dict.references, 0);
    CHECK_EQ(text.references, 0);
    CHECK_EQ(found.references, 0);
}
