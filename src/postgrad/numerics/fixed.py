"""Which arrays of a Module stay as they are from stage to stage."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jax.tree_util import (
    DictKey,
    GetAttrKey,
    SequenceKey,
    tree_flatten_with_path,
    tree_unflatten,
)
from jaxtyping import PyTree

__all__ = ["fixed", "fixed_leaves", "steps"]

if TYPE_CHECKING:
    from equinox import field as fixed  # so that type checkers see a field, not a default value
else:

    def fixed(**options: Any) -> Any:
        """A field of a Module whose arrays no stage changes, such as the points of a grid.

        Simulations hold one copy of these arrays for all runs, and a store writes them once.

        Args:
            **options: Those of `equinox.field`, such as `default`.
        """
        return eqx.field(metadata={"fixed": True}, **options)


def fixed_leaves(tree: PyTree) -> PyTree:
    """A tree of the same structure: True for each array under a `fixed` field, False elsewhere."""
    leaves, structure = tree_flatten_with_path(tree)
    marks = [
        eqx.is_array(leaf) and any(metadata.get("fixed") for *_, metadata in steps(tree, path))
        for path, leaf in leaves
    ]
    return tree_unflatten(structure, marks)


def steps(node: Any, path: tuple[Any, ...]) -> Iterator[tuple[type, str, Mapping[str, Any]]]:
    """The steps on the path from a node to a leaf: class, name, metadata of the field, if any."""
    for key in path:
        match key:
            case GetAttrKey(name=name):
                field = getattr(type(node), "__dataclass_fields__", {}).get(name)
                yield type(node), name, {} if field is None else field.metadata
                node = getattr(node, name)
            case DictKey(key=index) | SequenceKey(idx=index):
                yield type(node), str(index), {}
                node = node[index]
            case _:  # inside a class with a flattening of its own, such as numpyro's
                yield type(node), str(key.key), {}
