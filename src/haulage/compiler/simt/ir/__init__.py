"""The representation that all stages work on.

In comes the text of a module as LLVM prints it; `reader` makes a `Function` of typed instructions
of it, `builder` writes new ones, and `writer` their text. Nothing here knows of threads or blocks.
"""
