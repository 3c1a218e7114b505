/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * is_plain(value): whether JSON text has one form only for a value. That holds for None, bool, int,
 * str and finite float, and for list, tuple and dict of these, with str as keys; each of exactly
 * this type, since encoders treat subclasses in different ways.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>

/* Deeper values, and circles, are not plain: so the C stack cannot overflow. */
#define MAX_DEPTH 200

static int
plain(PyObject *value, int depth)
{
    if (PyUnicode_CheckExact(value) || value == Py_None || PyBool_Check(value)
        || PyLong_CheckExact(value)) {
        return 1;
    }
    if (PyFloat_CheckExact(value)) {
        return isfinite(PyFloat_AS_DOUBLE(value));
    }
    if (depth == 0) {
        return 0;
    }
    if (PyDict_CheckExact(value)) {
        Py_ssize_t at = 0;
        PyObject *key, *item;
        while (PyDict_Next(value, &at, &key, &item)) {
            if (!PyUnicode_CheckExact(key) || !plain(item, depth - 1)) {
                return 0;
            }
        }
        return 1;
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
        /* no Python code runs meanwhile, so the list does not change */
        Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
        PyObject **items = PySequence_Fast_ITEMS(value);
        for (Py_ssize_t i = 0; i < size; i++) {
            if (!plain(items[i], depth - 1)) {
                return 0;
            }
        }
        return 1;
    }
    return 0;
}

static PyObject *
is_plain(PyObject *module, PyObject *value)
{
    (void)module;
    return PyBool_FromLong(plain(value, MAX_DEPTH));
}

static PyMethodDef methods[] = {
    {"is_plain", is_plain, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    /* another thread may change a dict or list meanwhile, if there is no lock */
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "amqp1_driver.codec._plain",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__plain(void);

PyMODINIT_FUNC
PyInit__plain(void)
{
    return PyModuleDef_Init(&definition);
}
