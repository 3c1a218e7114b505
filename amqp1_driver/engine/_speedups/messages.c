/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Messages and credit, and the bytes of a connection. */

#include "speedups.h"

#include <stdio.h>

static PyObject *
misused(const char *signature)
{
    PyErr_SetString(PyExc_TypeError, signature);
    return NULL;
}

/* -- sending ------------------------------------------------------------------------------- */

/* 1 if a frame has room in the peer's window, 0 if not, -1 with an exception */
static int
has_room(PyObject *window)
{
    if (pn.session_remote_incoming_window == NULL || pn.session_outgoing_bytes == NULL) {
        return 1;
    }
    void *session = pointer_of(window, names.session);
    PyObject *given = session == NULL ? NULL : PyObject_GetAttr(window, names.given);
    if (given == NULL) {
        return -1;
    }
    long long frames = PyLong_AsLongLong(given);
    Py_DECREF(given);
    if (frames == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (frames != 0 && pn.session_outgoing_bytes(session) == 0) {
        frames = 0;
        PyObject *none = PyLong_FromLong(0);
        int result = none == NULL ? -1 : PyObject_SetAttr(window, names.given, none);
        Py_XDECREF(none);
        if (result < 0) {
            return -1;
        }
    }
    return (long long)pn.session_remote_incoming_window(session) > frames;
}

PyObject *
may_send(PyObject *module, PyObject *link)
{
    (void)module;
    void *pn_link = pointer_of(link, names.impl);
    if (pn_link == NULL) {
        return NULL;
    }
    if (pn.link_credit(pn_link) <= 0) {
        Py_RETURN_FALSE;
    }
    PyObject *window = PyObject_GetAttr(link, names.window);
    if (window == Py_None) {
        Py_DECREF(window);
        window = PyObject_CallMethodNoArgs(link, names.outgoing_window);
    }
    int room = window == NULL ? -1 : has_room(window);
    Py_XDECREF(window);
    if (room < 0) {
        return NULL;
    }
    if (room) {
        Py_RETURN_TRUE;
    }
    return PyObject_CallMethodNoArgs(link, names.hold);
}

PyObject *
send_message(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3) {
        return misused("send(link, data, settled)");
    }
    if (!PyBytes_CheckExact(args[1]) || PyBytes_GET_SIZE(args[1]) >= LARGE) {
        return PyObject_CallMethodObjArgs(bound.rare, names.send, args[0], args[1], args[2], NULL);
    }
    int settled = PyObject_IsTrue(args[2]);
    void *pn_link = settled < 0 ? NULL : pointer_of(args[0], names.impl);
    unsigned long long number;
    PyObject *key = pn_link == NULL ? NULL : next_key(args[0], &number);
    if (key == NULL) {
        return NULL;
    }
    Py_DECREF(key);
    char tag[2 * sizeof number + 1];
    octets_t octets = {(size_t)snprintf(tag, sizeof tag, "%llx", number), tag};
    void *delivery = pn.delivery(pn_link, octets);
    pn.link_send(pn_link, PyBytes_AS_STRING(args[1]), (size_t)PyBytes_GET_SIZE(args[1]));
    pn.link_advance(pn_link);
    if (settled) {
        pn.delivery_settle(delivery);
        return PyLong_FromLong(0);
    }
    PyObject *pointer = PyLong_FromVoidPtr(delivery);
    if (pointer != NULL && keep(args[0], pointer, pointer) < 0) {
        Py_CLEAR(pointer);
    }
    return pointer;
}

PyObject *
credit(PyObject *module, PyObject *link)
{
    (void)module;
    void *pn_link = pointer_of(link, names.impl);
    return pn_link == NULL ? NULL : PyLong_FromLong(pn.link_credit(pn_link));
}

/* -- receiving ----------------------------------------------------------------------------- */

PyObject *
settle_message(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3) {
        return misused("settle(link, key, outcome)");
    }
    if (args[2] != bound.accepted) {
        return PyObject_CallMethodObjArgs(bound.rare, names.settle, args[0], args[1], args[2], NULL);
    }
    void *delivery;
    int known = take(args[0], args[1], &delivery);
    if (known < 0) {
        return NULL;
    }
    if (known) {
        pn.delivery_update(delivery, bound.accepted_state);
        pn.delivery_settle(delivery);
    }
    return PyBool_FromLong(known);
}

PyObject *
read_bytes(void *pn_link, size_t size)
{
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (data == NULL || size == 0) {
        return data;
    }
    ssize_t got;
    if (size < LARGE) {
        got = pn.link_recv(pn_link, PyBytes_AS_STRING(data), size);
    }
    else {
        Py_BEGIN_ALLOW_THREADS
        got = pn.link_recv(pn_link, PyBytes_AS_STRING(data), size);
        Py_END_ALLOW_THREADS
    }
    if (got != (ssize_t)size) {
        Py_DECREF(data);
        PyErr_Format(PyExc_RuntimeError, "proton has given %zd of %zu bytes", got, size);
        return NULL;
    }
    return data;
}

PyObject *
read_message(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        return misused("read(link, size)");
    }
    size_t size = PyLong_AsSize_t(args[1]);
    void *pn_link = PyErr_Occurred() ? NULL : pointer_of(args[0], names.impl);
    return pn_link == NULL ? NULL : read_bytes(pn_link, size);
}

PyObject *
flow(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        return misused("flow(link, credit)");
    }
    long more = PyLong_AsLong(args[1]);
    void *pn_link = more == -1 && PyErr_Occurred() ? NULL : pointer_of(args[0], names.impl);
    if (pn_link == NULL) {
        return NULL;
    }
    pn.link_flow(pn_link, (int)more); /* within an int: an option with a maximum */
    Py_RETURN_NONE;
}

/* -- bytes --------------------------------------------------------------------------------- */

PyObject *
push(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        return misused("push(connection, data)");
    }
    void *transport = pointer_of(args[0], names.transport);
    if (transport == NULL) {
        return NULL;
    }
    Py_ssize_t size = PyBytes_CheckExact(args[1]) ? PyBytes_GET_SIZE(args[1]) : LARGE;
    if (size >= LARGE || pn.transport_capacity(transport) < size) {
        return PyObject_CallMethodObjArgs(bound.rare, names.push, args[0], args[1], NULL);
    }
    if (pn.transport_push(transport, PyBytes_AS_STRING(args[1]), (size_t)size) >= 0
        && pn.transport_capacity(transport) >= 0) {
        Py_RETURN_NONE;
    }
    PyObject *end = PyObject_GetAttr(args[0], names.needs_input); /* pyngus notes the end of input */
    if (end == NULL) {
        return NULL;
    }
    Py_DECREF(end);
    Py_RETURN_NONE;
}

PyObject *
fill(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3) {
        return misused("fill(transport, address, size)");
    }
    void *transport = PyLong_AsVoidPtr(args[0]);
    char *memory = PyErr_Occurred() ? NULL : PyLong_AsVoidPtr(args[1]);
    ssize_t room = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(args[2]), end = 0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (transport == NULL || memory == NULL) {
        return misused("fill() without a transport or memory");
    }
    ssize_t size = pn.transport_pending(transport);
    if (size < 0) {
        return PyLong_FromSsize_t(size);
    }
    while (size > 0 && end < room) {
        size = pn.transport_peek(transport, memory + end,
                                 (size_t)(size < room - end ? size : room - end));
        if (size <= 0) {
            break;
        }
        pn.transport_pop(transport, (size_t)size);
        end += size;
        /* taking output makes room for more: only a size of 0 says that this was all */
        size = pn.transport_pending(transport);
    }
    return PyLong_FromSsize_t(end);
}
