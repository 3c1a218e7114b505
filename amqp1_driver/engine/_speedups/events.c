/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The pump: proton's events, to the owners of the links. */

#include "speedups.h"

/* bytes; max_message_size is never less */
#define SMALLEST_LIMIT 65536

/* 1, 0, or -1 with an exception */
static int
truth_of(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL) {
        return -1;
    }
    int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* Drop the result of a call: 0, or -1 with an exception. */
static int
dropped(PyObject *result)
{
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Hand a whole message to the handler: link_delivery(key, data, settled). */
static int
hand_over(PyObject *link, void *delivery, PyObject *data)
{
    unsigned long long number;
    PyObject *settled = Py_False, *handler = NULL, *key = next_key(link, &number);
    int result = -1;
    if (key == NULL) {
        return -1;
    }
    if (pn.delivery_settled(delivery)) {
        settled = Py_True;
        pn.delivery_settle(delivery);
        result = 0;
    }
    else {
        /* the pointer is no key: proton reuses the memory, and an application may settle twice */
        PyObject *pointer = PyLong_FromVoidPtr(delivery);
        if (pointer != NULL) {
            result = keep(link, key, pointer);
            Py_DECREF(pointer);
        }
    }
    if (result == 0) {
        handler = PyObject_GetAttr(link, names.handler);
        result = handler == NULL ? -1 : dropped(PyObject_CallMethodObjArgs(
            handler, names.link_delivery, key, data, settled, NULL));
        Py_XDECREF(handler);
    }
    Py_DECREF(key);
    return result;
}

/* 1 if size is less than an attribute of the link, 0, or -1 with an exception */
static int
below(size_t size, PyObject *link, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(link, name);
    if (value == NULL) {
        return -1;
    }
    size_t limit = PyLong_AsSize_t(value);
    Py_DECREF(value);
    return PyErr_Occurred() ? -1 : size < limit;
}

static int
on_message(PyObject *link, void *pn_link, void *delivery)
{
    size_t size = pn.delivery_pending(delivery);
    /* proton reports one pending byte for an aborted delivery */
    int whole = size > 1 && pn.delivery_readable(delivery);
    if (whole && pn.delivery_partial(delivery)) {
        int more = below(size, link, names.piece); /* wait for more of the message */
        if (more != 0) {
            return more < 0 ? -1 : 0;
        }
        whole = 0;
    }
    if (whole) {
        int pieces = truth_of(link, names.pieces);
        whole = pieces < 0 ? -1 : !pieces;
    }
    /* no limit is smaller than this */
    if (whole > 0 && size > SMALLEST_LIMIT) {
        whole = below(size, link, names.largest);
    }
    if (whole <= 0) {
        return whole < 0 ? -1 : leave_to(names.on_link_delivery, link, delivery);
    }
    PyObject *data = read_bytes(pn_link, size);
    if (data == NULL) {
        return -1;
    }
    pn.link_advance(pn_link);
    int result = hand_over(link, delivery, data);
    Py_DECREF(data);
    return result;
}

static int
on_outcome(PyObject *link, void *delivery)
{
    if (pn.delivery_remote_state(delivery) != bound.accepted_state) {
        return leave_to(names.on_link_delivery, link, delivery);
    }
    PyObject *key = PyLong_FromVoidPtr(delivery);
    if (key == NULL) {
        return -1;
    }
    void *known;
    int result = take(link, key, &known);
    if (result > 0) {
        pn.delivery_settle(delivery);
        PyObject *handler = PyObject_GetAttr(link, names.handler);
        result = handler == NULL ? -1 : dropped(PyObject_CallMethodObjArgs(
            handler, names.link_outcome, key, bound.done, NULL));
        Py_XDECREF(handler);
    }
    Py_DECREF(key);
    return result;
}

static int
on_flow(PyObject *link, void *pn_link, int receiving)
{
    if (receiving) {
        int asking = truth_of(link, names.awaited_echoes);
        return asking <= 0 ? asking : dropped(PyObject_CallMethodNoArgs(link, names.answered));
    }
    PyObject *handler = PyObject_GetAttr(link, names.handler);
    if (handler == NULL) {
        return -1;
    }
    int result = dropped(PyObject_CallMethodNoArgs(handler, names.link_credit));
    Py_DECREF(handler);
    if (result == 0 && pn.link_get_drain(pn_link)) {
        result = dropped(PyObject_CallMethodNoArgs(link, names.answer_drain));
    }
    return result;
}

/* Process the event of a delivery, or the Flow frame of a link if delivery is NULL. */
static int
on_link_event(PyObject *links, void *pn_link, void *delivery)
{
    PyObject *number = PyLong_FromVoidPtr(pn_link);
    if (number == NULL) {
        return -1;
    }
    PyObject *link = PyDict_GetItemWithError(links, number);
    Py_DECREF(number);
    if (link == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(link); /* a handler may remove it from links */
    int result, receiving = truth_of(link, names.receiving);
    if (receiving < 0) {
        result = -1;
    }
    else if (delivery == NULL) {
        result = on_flow(link, pn_link, receiving);
    }
    else {
        result = receiving ? on_message(link, pn_link, delivery) : on_outcome(link, delivery);
    }
    Py_DECREF(link);
    return result;
}

static int
on_event(PyObject *connection, PyObject *links, void *event, bool *others)
{
    int kind = pn.event_type(event);
    if (kind == bound.delivery) {
        void *delivery = pn.event_delivery(event);
        return on_link_event(links, pn.delivery_link(delivery), delivery);
    }
    if (kind == bound.link_flow) {
        return on_link_event(links, pn.event_link(event), NULL);
    }
    if (kind == bound.transport) {
        return 0;
    }
    *others = true;
    return leave_to(names.dispatch, connection, event);
}

/* Remove the event even if a handler has failed, or it would come again. proton may free Python
   objects with it, whose code must not run while the exception of the handler is set. */
static void
pop(void *collector)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    pn.collector_pop(collector);
    PyErr_Restore(type, value, traceback);
}

PyObject *
pump(PyObject *module, PyObject *connection)
{
    (void)module;
    int asked = truth_of(connection, names.asked);
    if (asked != 0) {
        return asked < 0 ? NULL
                         : PyObject_CallMethodObjArgs(bound.rare, names.pump, connection, NULL);
    }
    void *event, *collector = pointer_of(connection, names.collector);
    PyObject *links = collector == NULL ? NULL : PyObject_GetAttr(connection, names.links);
    if (links == NULL) {
        return NULL;
    }
    if (!PyDict_Check(links)) {
        Py_DECREF(links);
        PyErr_SetString(PyExc_TypeError, "links must be a dict");
        return NULL;
    }
    bool others = false;
    int result = 0;
    while (result == 0 && (event = pn.collector_peek(collector)) != NULL) {
        result = on_event(connection, links, event, &others);
        pop(collector);
    }
    Py_DECREF(links);
    return result < 0 ? NULL : PyBool_FromLong(others);
}
