# cython: auto_pickle=False
"""Variables of the environment that are looked at in each launch."""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

import os


cdef class Variable:
    """Reads a variable, stripped, "" if it is not set. Where it is as it was the last time, that
    takes a look at the table that `os.environ` keeps, without decoding what stands there."""

    def __init__(self, str name not None):
        environ = os.environ
        table = getattr(environ, "_data", environ)
        self._name = name
        self._table = table
        self._key = name if table is environ else environ.encodekey(name)
        self._raw, self._text = None, ""

    cdef str text(self):
        cdef PyObject *raw = PyDict_GetItemWithError(self._table, self._key)
        if raw == NULL:
            return ""
        if raw != <PyObject *>self._raw:
            found = <object>raw
            self._text = os.environ.get(self._name, "").strip()
            self._raw = found
        return self._text

    def __call__(self):
        return self.text()
