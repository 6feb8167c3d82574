"""What a kernel can say: one object per word, shared by both vocabularies.

A word is described where it is defined: its typing and its lowering in one function. Nothing here
imports Numba until the first kernel is compiled.
"""
