"""Loads and stores with a hint for the caches, under numba-cuda's long name for their module."""

from haulage.lang.cached import ldca, ldcg, ldcs, ldcv, ldlu, stcg, stcs, stwb, stwt

__all__ = ["ldca", "ldcg", "ldcs", "ldcv", "ldlu", "stcg", "stcs", "stwb", "stwt"]
