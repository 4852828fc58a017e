"""The default descent."""

from postgrad.algorithm.descents.search.search import Search as Search
