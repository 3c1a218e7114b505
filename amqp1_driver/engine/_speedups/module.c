/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * What is common in fastpath.py, in C: whole messages, accepted ones, credit. All else goes
 * back to that module. proton's functions are called at addresses that speedups.py gives,
 * with the interpreter's lock held; on the I/O thread only, as there.
 */

#include "speedups.h"

#include <stddef.h>
#include <string.h>

functions_t pn;
bound_t bound;
names_t names;

/* -- what the parts share ------------------------------------------------------------------ */

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
left_to(PyObject *function, PyObject *object, void *pointer)
{
    PyObject *number = PyLong_FromVoidPtr(pointer);
    if (number == NULL) {
        return -1;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(function, object, number, NULL);
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

#define FUNCTION(name) {"pn_" #name, offsetof(functions_t, name)}

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    FUNCTION(collector_peek), FUNCTION(collector_pop), FUNCTION(event_type),
    FUNCTION(event_delivery), FUNCTION(event_link), FUNCTION(delivery_link),
    FUNCTION(delivery_readable), FUNCTION(delivery_partial), FUNCTION(delivery_pending),
    FUNCTION(delivery_remote_state), FUNCTION(delivery_settled), FUNCTION(delivery_settle),
    FUNCTION(delivery_update), FUNCTION(delivery), FUNCTION(link_credit),
    FUNCTION(link_get_drain), FUNCTION(link_send), FUNCTION(link_recv), FUNCTION(link_advance), FUNCTION(link_flow),
    FUNCTION(transport_capacity), FUNCTION(transport_push), FUNCTION(transport_pending),
    FUNCTION(transport_peek), FUNCTION(transport_pop),
    FUNCTION(session_remote_incoming_window), FUNCTION(session_outgoing_bytes),
};

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
    unsigned long long accepted;
    if (!PyArg_ParseTuple(args, "O!(iiiK)OOOO:bind", &PyDict_Type, &addresses, &given.delivery,
                          &given.link_flow, &given.transport, &accepted, &given.incoming,
                          &given.outgoing, &given.dispatch, &given.done)
        || find_functions(addresses) < 0) {
        return NULL;
    }
    given.accepted = accepted;
    Py_INCREF(given.incoming);
    Py_INCREF(given.outgoing);
    Py_INCREF(given.dispatch);
    Py_INCREF(given.done);
    bound_t before = bound;
    bound = given;
    Py_XDECREF(before.incoming);
    Py_XDECREF(before.outgoing);
    Py_XDECREF(before.dispatch);
    Py_XDECREF(before.done);
    Py_RETURN_NONE;
}

/* -- the module ---------------------------------------------------------------------------- */

#define NAME(name, text) {&names.name, text}

static int
intern_names(void)
{
    static const struct {
        PyObject **name;
        const char *text;
    } texts[] = {
        NAME(answer_drain, "answer_drain"), NAME(answered, "answered"), NAME(awaited_echoes, "awaited_echoes"), NAME(collector, "collector"),
        NAME(given, "given"), NAME(handler, "handler"), NAME(hold, "hold"), NAME(impl, "impl"),
        NAME(link_credit, "link_credit"), NAME(link_delivery, "link_delivery"),
        NAME(link_outcome, "link_outcome"), NAME(links, "links"), NAME(next_key, "next_key"),
        NAME(outgoing_window, "outgoing_window"), NAME(pieces, "pieces"),
        NAME(receiving, "receiving"), NAME(session, "session"), NAME(unsettled, "unsettled"),
        NAME(window, "window"),
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(texts); i++) {
        *texts[i].name = PyUnicode_InternFromString(texts[i].text);
        if (*texts[i].name == NULL) {
            return -1;
        }
    }
    return 0;
}

#define FAST(function) ((PyCFunction)(void (*)(void))function)

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, NULL},
    {"pump", pump, METH_O, NULL},
    {"may_send", may_send, METH_O, NULL},
    {"send", FAST(send_message), METH_FASTCALL, NULL},
    {"credit", credit, METH_O, NULL},
    {"accept", FAST(accept_message), METH_FASTCALL, NULL},
    {"flow", FAST(flow), METH_FASTCALL, NULL},
    {"push", FAST(push), METH_FASTCALL, NULL},
    {"fill", FAST(fill), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "amqp1_driver.engine._speedups",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__speedups(void);

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return intern_names() < 0 ? NULL : PyModule_Create(&definition);
}
