/* Public fields of a cdef class, read and written by Python as fast as slots.

   What Cython makes of them are properties, which are called each time. Python's interpreter knows a
   member by its place in the object, and looks there. One that was deleted is NULL, as an empty slot
   is, which code in C must not meet: nobody deletes these. */

#ifndef HAULAGE_FIELDS_H
#define HAULAGE_FIELDS_H

#include <Python.h>
#include <structmember.h>

/* Let the field `name`, which has the value `mark` in `object` and no other field has, be a member. */
static int haulage_as_member(PyObject *type, PyObject *object, const char *name, PyObject *mark)
{
    PyTypeObject *of = (PyTypeObject *)type;
    Py_ssize_t place = sizeof(PyObject);
    PyMemberDef *member = PyMem_Calloc(1, sizeof(PyMemberDef)); /* stays as long as the type */
    PyObject *descriptor;
    int failed;

    if (member == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (place < of->tp_basicsize && *(PyObject **)((char *)object + place) != mark)
        place += sizeof(PyObject *);
    if (place >= of->tp_basicsize) {
        PyMem_Free(member);
        PyErr_Format(PyExc_TypeError, "%s has no field %s of an object", of->tp_name, name);
        return -1;
    }
    member->name = name;
    member->type = T_OBJECT_EX;
    member->offset = place;
    descriptor = PyDescr_NewMember(of, member);
    if (descriptor == NULL)
        return -1;
    failed = PyDict_SetItemString(of->tp_dict, name, descriptor);
    Py_DECREF(descriptor);
    PyType_Modified(of);
    return failed;
}

#endif
