/* What Cython has no words for: objects of classes that are known only when the program runs. */

#ifndef HAULAGE_OBJECTS_H
#define HAULAGE_OBJECTS_H

#include <Python.h>

#define haulage_is_a(thing, kind) PyObject_TypeCheck(thing, (PyTypeObject *)(kind))

/* What `kind.__new__(kind, *arguments)` gives. */
static inline PyObject *haulage_made_of(PyObject *kind, PyObject *arguments)
{
    return ((PyTypeObject *)kind)->tp_new((PyTypeObject *)kind, arguments, NULL);
}

/* What `kind.__new__(kind)` gives. */
static inline PyObject *haulage_made(PyObject *kind)
{
    static PyObject *none = NULL;
    if (none == NULL && (none = PyTuple_New(0)) == NULL)
        return NULL;
    return haulage_made_of(kind, none);
}

#endif
