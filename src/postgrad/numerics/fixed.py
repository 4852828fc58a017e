"""Which arrays of a Module stay as they are from stage to stage."""

import dataclasses
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

__all__ = ["fixed", "fixed_leaves"]

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
    marks = [eqx.is_array(leaf) and _is_fixed(tree, path) for path, leaf in leaves]
    return tree_unflatten(structure, marks)


def _is_fixed(node: Any, path: tuple[Any, ...]) -> bool:
    """Whether a field on the path from the node to a leaf is marked."""
    for key in path:
        match key:
            case GetAttrKey(name=name):
                if name in _fixed_fields(type(node)):
                    return True
                node = getattr(node, name)
            case DictKey(key=name):
                node = node[name]
            case SequenceKey(idx=index):
                node = node[index]
            case _:  # a class with a flattening of its own, which has no fields of this kind
                return False
    return False


def _fixed_fields(kind: type) -> set[str]:
    if not dataclasses.is_dataclass(kind):
        return set()
    return {field.name for field in dataclasses.fields(kind) if field.metadata.get("fixed")}
