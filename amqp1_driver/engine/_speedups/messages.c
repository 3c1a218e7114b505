/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Messages and credit, and the bytes of a connection: as the functions of fastpath.py. */

#include "speedups.h"

#include <stdio.h>

/* proton's buffer of output, bytes: a full one may not be all there is */
#define BUFFER 16384

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
    if (count != 3 || !PyBytes_CheckExact(args[1])) {
        return misused("send(link, bytes, settled)");
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
accept_message(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        return misused("accept(link, key)");
    }
    void *delivery;
    int known = take(args[0], args[1], &delivery);
    if (known < 0) {
        return NULL;
    }
    if (known) {
        pn.delivery_update(delivery, bound.accepted);
        pn.delivery_settle(delivery);
    }
    return PyBool_FromLong(known);
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
    pn.link_flow(pn_link, (int)more); /* a window's size: an option, with a maximum */
    Py_RETURN_NONE;
}

/* -- bytes --------------------------------------------------------------------------------- */

PyObject *
push(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyBytes_CheckExact(args[1])) {
        return misused("push(transport, bytes)");
    }
    void *transport = PyLong_AsVoidPtr(args[0]);
    if (transport == NULL) {
        return PyErr_Occurred() ? NULL : misused("push() without a transport");
    }
    Py_ssize_t size = PyBytes_GET_SIZE(args[1]);
    if (pn.transport_capacity(transport) < size) {
        Py_RETURN_NONE;
    }
    return PyBool_FromLong(
        pn.transport_push(transport, PyBytes_AS_STRING(args[1]), (size_t)size) >= 0
        && pn.transport_capacity(transport) >= 0);
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
        size = size >= BUFFER ? pn.transport_pending(transport) : 0;
    }
    return PyLong_FromSsize_t(end);
}
