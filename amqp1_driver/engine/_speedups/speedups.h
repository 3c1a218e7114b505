/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Declarations that the parts of the module _speedups share. See ../speedups.py. */

#ifndef AMQP1_DRIVER_SPEEDUPS_H
#define AMQP1_DRIVER_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* bytes; copies of this size or more give up the interpreter's lock, because they take long enough
   for other threads to run */
#define LARGE 16384

/* pn_bytes_t, also called pn_delivery_tag_t */
typedef struct {
    size_t size;
    const char *start;
} octets_t;

/*
 * All functions of proton that the module calls: F(name without pn_, result, arguments, signature).
 * speedups.py compares the signatures, in the notation of cffi, with those of the installed proton.
 * A function whose signature is NULL is missing from proton's Python binding, and may be missing
 * from its library; its pointer is NULL then. Pointers to proton's objects are opaque.
 */
#define PROTON_FUNCTIONS(F)                                                                        \
    F(collector_peek, void *, (void *), "struct pn_event_t *(*)(struct pn_collector_t *)")         \
    F(collector_pop, bool, (void *), "_Bool(*)(struct pn_collector_t *)")                          \
    F(event_type, int, (void *), "pn_event_type_t(*)(struct pn_event_t *)")                        \
    F(event_delivery, void *, (void *), "struct pn_delivery_t *(*)(struct pn_event_t *)")          \
    F(event_link, void *, (void *), "struct pn_link_t *(*)(struct pn_event_t *)")                  \
    F(delivery_link, void *, (void *), "struct pn_link_t *(*)(struct pn_delivery_t *)")            \
    F(delivery_readable, bool, (void *), "_Bool(*)(struct pn_delivery_t *)")                       \
    F(delivery_partial, bool, (void *), "_Bool(*)(struct pn_delivery_t *)")                        \
    F(delivery_pending, size_t, (void *), "size_t(*)(struct pn_delivery_t *)")                     \
    F(delivery_remote_state, uint64_t, (void *), "uint64_t(*)(struct pn_delivery_t *)")            \
    F(delivery_settled, bool, (void *), "_Bool(*)(struct pn_delivery_t *)")                        \
    F(delivery_settle, void, (void *), "void(*)(struct pn_delivery_t *)")                          \
    F(delivery_update, void, (void *, uint64_t), "void(*)(struct pn_delivery_t *, uint64_t)")      \
    F(delivery, void *, (void *, octets_t),                                                        \
      "struct pn_delivery_t *(*)(struct pn_link_t *, struct pn_bytes_t)")                          \
    F(link_credit, int, (void *), "int(*)(struct pn_link_t *)")                                    \
    F(link_get_drain, bool, (void *), "_Bool(*)(struct pn_link_t *)")                              \
    F(link_send, ssize_t, (void *, const char *, size_t),                                          \
      "ssize_t(*)(struct pn_link_t *, char *, size_t)")                                            \
    F(link_recv, ssize_t, (void *, char *, size_t),                                                \
      "ssize_t(*)(struct pn_link_t *, char *, size_t)")                                            \
    F(link_advance, bool, (void *), "_Bool(*)(struct pn_link_t *)")                                \
    F(link_flow, void, (void *, int), "void(*)(struct pn_link_t *, int)")                          \
    F(transport_capacity, ssize_t, (void *), "ssize_t(*)(struct pn_transport_t *)")                \
    F(transport_push, ssize_t, (void *, const char *, size_t),                                     \
      "ssize_t(*)(struct pn_transport_t *, char *, size_t)")                                       \
    F(transport_pending, ssize_t, (void *), "ssize_t(*)(struct pn_transport_t *)")                 \
    F(transport_peek, ssize_t, (void *, char *, size_t),                                           \
      "ssize_t(*)(struct pn_transport_t *, char *, size_t)")                                       \
    F(transport_pop, void, (void *, size_t), "void(*)(struct pn_transport_t *, size_t)")           \
    F(session_remote_incoming_window, uint32_t, (void *), NULL)                                    \
    F(session_outgoing_bytes, size_t, (void *), NULL)

typedef struct {
#define MEMBER(name, result, arguments, signature) result(*name) arguments;
    PROTON_FUNCTIONS(MEMBER)
#undef MEMBER
} functions_t;

/* The other arguments of bind(). */
typedef struct {
    int delivery, link_flow, transport;
    uint64_t accepted_state;
    /* RareCases of speedups.py */
    PyObject *rare;
    /* Outcome.ACCEPTED, and the disposition of an accepted message */
    PyObject *accepted, *done;
} bound_t;

/*
 * All attributes and methods of Python objects that the module uses. Connection, Link and their
 * relatives in deliveries.py declare them; a test compares.
 */
#define PYTHON_NAMES(N)                                                                            \
    /* of a connection */                                                                          \
    N(asked) N(collector) N(links) N(needs_input) N(transport)                                     \
    /* of a link */                                                                                \
    N(answer_drain) N(answered) N(awaited_echoes) N(handler) N(hold) N(impl) N(largest)            \
    N(next_key) N(outgoing_window) N(piece) N(pieces) N(receiving) N(unsettled) N(window)          \
    /* of a window */                                                                              \
    N(given) N(session)                                                                            \
    /* of the owner of a link */                                                                   \
    N(link_credit) N(link_delivery) N(link_outcome)                                                \
    /* of RareCases */                                                                             \
    N(dispatch) N(on_link_delivery) N(pump) N(push) N(send) N(settle)

typedef struct {
#define MEMBER(name) PyObject *name;
    PYTHON_NAMES(MEMBER)
#undef MEMBER
} names_t;

extern functions_t pn;
extern bound_t bound;
extern names_t names;

/* An attribute that holds a pointer; NULL with an exception. */
void *pointer_of(PyObject *object, PyObject *name);

/* Call a method of RareCases with an object and a pointer; 0, or -1 with an exception. */
int leave_to(PyObject *method, PyObject *object, void *pointer);

/* Count link.next_key on, to *number; a new reference to it, NULL with an exception. */
PyObject *next_key(PyObject *link, unsigned long long *number);

/* link.unsettled[key] = value; 0, or -1 with an exception. */
int keep(PyObject *link, PyObject *key, PyObject *value);

/* link.unsettled.pop(key), a pointer, to *value; 1, 0 if there is none, -1 with an exception. */
int take(PyObject *link, PyObject *key, void **value);

/* Take size bytes of a message out of proton; NULL with an exception. */
PyObject *read_bytes(void *pn_link, size_t size);

PyObject *pump(PyObject *module, PyObject *connection);
PyObject *may_send(PyObject *module, PyObject *link);
PyObject *send_message(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *settle_message(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *credit(PyObject *module, PyObject *link);
PyObject *flow(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *read_message(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *push(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *fill(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
