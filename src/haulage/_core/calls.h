/* Calls of objects of a class of Python's that mostly begin and end in C.

   A function of Python costs a frame, and its own for who asks which line of the program called; one of
   Cython's leaves its line in the traceback of each error, which `shorten` has taken by then. */

#ifndef HAULAGE_CALLS_H
#define HAULAGE_CALLS_H

#include <Python.h>

static int (*haulage_at_once)(PyObject *self, PyObject *args); /* 1: done, 0: not begun, -1: an error */
static ternaryfunc haulage_in_python = NULL;
static PyObject *haulage_brief = NULL;   /* errors that are to show the program's lines only, */
static PyObject *haulage_shorten = NULL; /* and what lets them */

static PyObject *haulage_call(PyObject *self, PyObject *args, PyObject *named)
{
    PyObject *kind, *error, *traceback, *done;
    int begun;
    if (named != NULL && PyDict_GET_SIZE(named) != 0)
        return haulage_in_python(self, args, named);
    begun = haulage_at_once(self, args);
    if (begun == 0)
        return haulage_in_python(self, args, named);
    if (begun > 0)
        Py_RETURN_NONE;
    if (!PyErr_ExceptionMatches(haulage_brief))
        return NULL;
    PyErr_Fetch(&kind, &error, &traceback);
    PyErr_NormalizeException(&kind, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    Py_XDECREF(traceback);
    done = PyObject_CallOneArg(haulage_shorten, error);
    if (done == NULL) {
        Py_XDECREF(kind);
        Py_XDECREF(error);
        return NULL;
    }
    Py_DECREF(done);
    PyErr_Restore(kind, error, PyException_GetTraceback(error));
    return NULL;
}

/* Let calls of the class's objects, whose `__call__` is Python's, ask `at_once` first. */
static int haulage_call_at_once(PyObject *of, int (*at_once)(PyObject *, PyObject *), PyObject *brief,
                                PyObject *shorten)
{
    PyTypeObject *type = (PyTypeObject *)of;
    if (type->tp_call == NULL || type->tp_call == haulage_call
        || (haulage_in_python != NULL && type->tp_call != haulage_in_python)) {
        PyErr_Format(PyExc_TypeError, "calls of class %s cannot begin in C: it has no __call__ of "
                     "Python's, or they do", type->tp_name);
        return -1;
    }
    haulage_in_python = type->tp_call;
    haulage_at_once = at_once;
    Py_INCREF(brief);
    Py_XSETREF(haulage_brief, brief);
    Py_INCREF(shorten);
    Py_XSETREF(haulage_shorten, shorten);
    type->tp_call = haulage_call;
    return 0;
}

#endif
