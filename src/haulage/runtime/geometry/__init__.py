"""Arithmetic of shapes, strides, fields and ranges of bytes: numbers in, numbers out."""
