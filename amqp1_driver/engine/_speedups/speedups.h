/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What the parts of the module _speedups share. See ../speedups.py. */

#ifndef AMQP1_DRIVER_SPEEDUPS_H
#define AMQP1_DRIVER_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* pn_bytes_t, also called pn_delivery_tag_t */
typedef struct {
    size_t size;
    const char *start;
} octets_t;

/* proton's functions, by their names without pn_; pointers to its objects are opaque */
typedef struct {
    void *(*collector_peek)(void *);
    bool (*collector_pop)(void *);
    int (*event_type)(void *);
    void *(*event_delivery)(void *);
    void *(*event_link)(void *);
    void *(*delivery_link)(void *);
    bool (*delivery_readable)(void *);
    bool (*delivery_partial)(void *);
    size_t (*delivery_pending)(void *);
    uint64_t (*delivery_remote_state)(void *);
    bool (*delivery_settled)(void *);
    void (*delivery_settle)(void *);
    void (*delivery_update)(void *, uint64_t);
    void *(*delivery)(void *, octets_t);
    int (*link_credit)(void *);
    bool (*link_get_drain)(void *);
    ssize_t (*link_send)(void *, const char *, size_t);
    ssize_t (*link_recv)(void *, char *, size_t);
    bool (*link_advance)(void *);
    void (*link_flow)(void *, int);
    ssize_t (*transport_capacity)(void *);
    ssize_t (*transport_push)(void *, const char *, size_t);
    ssize_t (*transport_pending)(void *);
    ssize_t (*transport_peek)(void *, char *, size_t);
    void (*transport_pop)(void *, size_t);
    /* these two may be NULL */
    uint32_t (*session_remote_incoming_window)(void *);
    size_t (*session_outgoing_bytes)(void *);
} functions_t;

/* what bind() was given besides */
typedef struct {
    int delivery, link_flow, transport;
    uint64_t accepted;
    /* functions of fastpath.py, for all that is not common */
    PyObject *incoming, *outgoing, *dispatch;
    /* the disposition of an accepted message */
    PyObject *done;
} bound_t;

/* names of attributes and methods, interned */
typedef struct {
    PyObject *answer_drain, *answered, *awaited_echoes, *collector, *given, *handler, *hold, *impl, *link_credit,
        *link_delivery, *link_outcome, *links, *next_key, *outgoing_window, *pieces, *receiving,
        *session, *unsettled, *window;
} names_t;

extern functions_t pn;
extern bound_t bound;
extern names_t names;

/* An attribute that holds a pointer; NULL with an exception. */
void *pointer_of(PyObject *object, PyObject *name);

/* Call with an object and a pointer; 0, or -1 with an exception. */
int left_to(PyObject *function, PyObject *object, void *pointer);

/* Count link.next_key on, to *number; a new reference to it, NULL with an exception. */
PyObject *next_key(PyObject *link, unsigned long long *number);

/* link.unsettled[key] = value; 0, or -1 with an exception. */
int keep(PyObject *link, PyObject *key, PyObject *value);

/* link.unsettled.pop(key), a pointer, to *value; 1, 0 if there is none, -1 with an exception. */
int take(PyObject *link, PyObject *key, void **value);

PyObject *pump(PyObject *module, PyObject *connection);
PyObject *may_send(PyObject *module, PyObject *link);
PyObject *send_message(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *accept_message(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *credit(PyObject *module, PyObject *link);
PyObject *flow(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *push(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *fill(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
