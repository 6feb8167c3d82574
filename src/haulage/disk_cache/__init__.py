"""Compiled code kept on disk between processes.

folder.py    the folder: who may write there, files put and found, the oldest dropped
entry.py     one file: what the code is as JSON, the code's bytes, and a checksum over both
store.py     entries by a key, which is a digest of everything that the code was made from
software.py  versions of everything that code is made by

What goes into the key of a kernel is the work of `compiler/cache`.
"""
