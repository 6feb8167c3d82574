/* Objects of one class that are made of memory which objects of that class had before.

   Cython does so for its own classes (`freelist`), not for the classes that Python derives from them;
   this is for one of these. The class must have no instance dictionary and no `__del__`: whether that
   was called stands in the memory. */

#ifndef HAULAGE_RECYCLED_H
#define HAULAGE_RECYCLED_H

#include <Python.h>
#include <string.h>

#define HAULAGE_MOST_KEPT 64

static PyObject *haulage_kept[HAULAGE_MOST_KEPT];
static int haulage_kept_count = 0;
static PyTypeObject *haulage_recycled = NULL; /* the class */

static PyObject *haulage_reuse(PyTypeObject *type, Py_ssize_t items)
{
    PyObject *made;
    if (type != haulage_recycled || haulage_kept_count == 0)
        return PyType_GenericAlloc(type, items);
    made = haulage_kept[--haulage_kept_count];
    memset(made, 0, type->tp_basicsize);
    PyObject_Init(made, type);
    PyObject_GC_Track(made);
    return made;
}

static void haulage_keep(void *gone)
{
    if (Py_TYPE((PyObject *)gone) == haulage_recycled && haulage_kept_count < HAULAGE_MOST_KEPT)
        haulage_kept[haulage_kept_count++] = (PyObject *)gone;
    else
        PyObject_GC_Del(gone);
}

/* Recycle objects of this class from now on. */
static int haulage_recycle(PyObject *of)
{
    PyTypeObject *type = (PyTypeObject *)of;
    if (haulage_recycled != NULL || type->tp_alloc != PyType_GenericAlloc
        || type->tp_free != PyObject_GC_Del || type->tp_dictoffset != 0 || type->tp_itemsize != 0
        || type->tp_finalize != NULL) {
        PyErr_Format(PyExc_TypeError, "objects of class %s cannot be made of used memory: it has a "
                     "dictionary, a finaliser, or memory of its own, or there is such a class",
                     type->tp_name);
        return -1;
    }
    haulage_recycled = type;
    type->tp_alloc = haulage_reuse;
    type->tp_free = haulage_keep;
    return 0;
}

#endif
