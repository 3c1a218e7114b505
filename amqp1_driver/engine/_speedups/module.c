/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * The common cases of deliveries: whole messages, accepted ones, credit. All others are left to
 * RareCases in speedups.py. The functions of proton are called at addresses that speedups.py passes,
 * with the interpreter's lock held unless a large message is copied; on the I/O thread only.
 */

#include "speedups.h"

#include <stddef.h>
#include <string.h>

functions_t pn;
bound_t bound;
names_t names;

/* -- shared by the parts ------------------------------------------------------------------- */

void *
pointer_of(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL) {
        return NULL;
    }
    void *pointer = PyLong_AsVoidPtr(value);
    Py_DECREF(value);
    if (pointer == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%U is NULL", name);
    }
    return pointer;
}

int
leave_to(PyObject *method, PyObject *object, void *pointer)
{
    PyObject *number = PyLong_FromVoidPtr(pointer);
    if (number == NULL) {
        return -1;
    }
    PyObject *result = PyObject_CallMethodObjArgs(bound.rare, method, object, number, NULL);
    Py_DECREF(number);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

PyObject *
next_key(PyObject *link, unsigned long long *number)
{
    PyObject *last = PyObject_GetAttr(link, names.next_key);
    if (last == NULL) {
        return NULL;
    }
    unsigned long long value = PyLong_AsUnsignedLongLong(last);
    Py_DECREF(last);
    if (PyErr_Occurred()) {
        return NULL;
    }
    *number = value + 1;
    PyObject *key = PyLong_FromUnsignedLongLong(*number);
    if (key != NULL && PyObject_SetAttr(link, names.next_key, key) < 0) {
        Py_CLEAR(key);
    }
    return key;
}

/* link.unsettled, a new reference; NULL with an exception */
static PyObject *
unsettled_of(PyObject *link)
{
    PyObject *unsettled = PyObject_GetAttr(link, names.unsettled);
    if (unsettled != NULL && !PyDict_Check(unsettled)) {
        PyErr_SetString(PyExc_TypeError, "unsettled must be a dict");
        Py_CLEAR(unsettled);
    }
    return unsettled;
}

int
keep(PyObject *link, PyObject *key, PyObject *value)
{
    PyObject *unsettled = unsettled_of(link);
    if (unsettled == NULL) {
        return -1;
    }
    int result = PyDict_SetItem(unsettled, key, value);
    Py_DECREF(unsettled);
    return result;
}

int
take(PyObject *link, PyObject *key, void **value)
{
    PyObject *unsettled = unsettled_of(link);
    if (unsettled == NULL) {
        return -1;
    }
    int result = 0;
    PyObject *pointer = PyDict_GetItemWithError(unsettled, key);
    if (pointer != NULL) {
        *value = PyLong_AsVoidPtr(pointer);
        result = PyErr_Occurred() || PyDict_DelItem(unsettled, key) < 0 ? -1 : 1;
    }
    else if (PyErr_Occurred()) {
        result = -1;
    }
    Py_DECREF(unsettled);
    return result;
}

/* -- bind() -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *signature;
    size_t offset;
} functions[] = {
#define ENTRY(name, result, arguments, signature) {"pn_" #name, signature, offsetof(functions_t, name)},
    PROTON_FUNCTIONS(ENTRY)
#undef ENTRY
};

/* A dict: name -> signature, or None. */
static PyObject *
signatures(void)
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < Py_ARRAY_LENGTH(functions); i++) {
        PyObject *signature = Py_BuildValue("z", functions[i].signature);
        if (signature == NULL || PyDict_SetItemString(found, functions[i].name, signature) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(signature);
    }
    return found;
}

static int
find_functions(PyObject *addresses)
{
    functions_t found;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(functions); i++) {
        PyObject *address = PyDict_GetItemString(addresses, functions[i].name);
        if (address == NULL) {
            PyErr_Format(PyExc_KeyError, "no address of %s", functions[i].name);
            return -1;
        }
        void *pointer = PyLong_AsVoidPtr(address);
        if (PyErr_Occurred()) {
            return -1;
        }
        if (pointer == NULL && functions[i].signature != NULL) {
            PyErr_Format(PyExc_KeyError, "the address of %s is 0", functions[i].name);
            return -1;
        }
        memcpy((char *)&found + functions[i].offset, &pointer, sizeof pointer);
    }
    pn = found;
    return 0;
}

static PyObject *
bind(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *addresses;
    bound_t given;
    unsigned long long accepted_state;
    if (!PyArg_ParseTuple(args, "O!(iiiK)OOO:bind", &PyDict_Type, &addresses, &given.delivery,
                          &given.link_flow, &given.transport, &accepted_state, &given.rare,
                          &given.accepted, &given.done)
        || find_functions(addresses) < 0) {
        return NULL;
    }
    given.accepted_state = accepted_state;
    Py_INCREF(given.rare);
    Py_INCREF(given.accepted);
    Py_INCREF(given.done);
    bound_t before = bound;
    bound = given;
    Py_XDECREF(before.rare);
    Py_XDECREF(before.accepted);
    Py_XDECREF(before.done);
    Py_RETURN_NONE;
}

/* -- the module ---------------------------------------------------------------------------- */

static int
intern_names(void)
{
    static const struct {
        PyObject **name;
        const char *text;
    } texts[] = {
#define ENTRY(name) {&names.name, #name},
        PYTHON_NAMES(ENTRY)
#undef ENTRY
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(texts); i++) {
        *texts[i].name = PyUnicode_InternFromString(texts[i].text);
        if (*texts[i].name == NULL) {
            return -1;
        }
    }
    return 0;
}

static int
execute(PyObject *module)
{
    PyObject *found = intern_names() < 0 ? NULL : signatures();
    int result = found == NULL ? -1 : PyModule_AddObjectRef(module, "FUNCTIONS", found);
    Py_XDECREF(found);
    return result;
}

#define FAST(function) ((PyCFunction)(void (*)(void))function)

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, NULL},
    {"pump", pump, METH_O, NULL},
    {"may_send", may_send, METH_O, NULL},
    {"send", FAST(send_message), METH_FASTCALL, NULL},
    {"settle", FAST(settle_message), METH_FASTCALL, NULL},
    {"credit", credit, METH_O, NULL},
    {"flow", FAST(flow), METH_FASTCALL, NULL},
    {"read", FAST(read_message), METH_FASTCALL, NULL},
    {"push", FAST(push), METH_FASTCALL, NULL},
    {"fill", FAST(fill), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030c0000
    /* pn, bound and names are of the process */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    /* The state of links and connections has no lock but the interpreter's: loop_lock guards it on
       the way through the loop, but nobody has tried the driver without the interpreter's lock, and
       proton's Python binding needs that lock too. */
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "amqp1_driver.engine._speedups",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__speedups(void);

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
