"""A rule as a graph of ONNX: from probabilities to the probability of deciding 1."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.exceptions import MissingExtraError
from evenhand.optimum.rule_format import write
from evenhand.solver.oracle import ROUNDING

if TYPE_CHECKING:
    from evenhand.optimum.rule import Rule
    from evenhand.solver.thresholds import Steps

_OPSET, _IR = 17, 8
_DOUBLE, _WHOLE = 11, 7  # of TensorProto


class _Graph:
    """Nodes of a graph, added one by one."""

    def __init__(self) -> None:
        try:
            self.helper = import_module("onnx.helper")
            self._from_array = import_module("onnx.numpy_helper").from_array
        except ImportError:
            raise MissingExtraError("onnx", "onnx") from None
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self._from_array(np.asarray(value, dtype=kind), name))
        return name

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weighted(self, rows: str, table: Any) -> str:
        """Sum of weight times probability, over groups and labels."""
        return self.add("ReduceSum", self.add("Mul", rows, self.constant(table)), self.axes(1, 2), keepdims=0)

    def axes(self, *axes: int) -> str:
        return self.constant(axes, np.int64)


def to_onnx(rule: Rule) -> Any:
    """The graph of a rule; see :meth:`evenhand.optimum.rule.Rule.to_onnx`."""
    graph = _Graph()
    inputs: dict[str, tuple[int, list[Any]]]
    if rule.steps is None:
        inputs = {"posteriors": (_DOUBLE, ["rows", *rule.table.shape])}
        _blind(rule, graph)
    else:
        inputs = {"label_probability": (_DOUBLE, ["rows"]), "group": (_WHOLE, ["rows"])}
        _by_steps(rule.steps, graph)
    half = graph.add("GreaterOrEqual", "probability", graph.constant(0.5))
    graph.add("Cast", half, name="decision", to=_WHOLE)
    info = graph.helper.make_tensor_value_info
    made = graph.helper.make_graph(
        graph.nodes,
        "evenhand rule",
        [info(name, *kind) for name, kind in inputs.items()],
        [info("decision", _WHOLE, ["rows"]), info("probability", _DOUBLE, ["rows"])],
        graph.constants,
    )
    model = graph.helper.make_model(
        made,
        producer_name="evenhand",
        ir_version=_IR,
        opset_imports=[graph.helper.make_opsetid("", _OPSET)],
    )
    graph.helper.set_model_props(model, {"rule": write(rule)})
    return model


def _blind(rule: Rule, graph: _Graph) -> None:
    rows = "posteriors"
    H = graph.weighted(rows, rule.table)
    terms = graph.add("Max", graph.weighted(rows, np.abs(rule.table)), graph.constant(rule.unit))
    rounding = graph.add("Mul", terms, graph.constant(ROUNDING))
    tied = graph.add("LessOrEqual", graph.add("Abs", H), rounding)
    chosen = graph.add("Cast", graph.add("Greater", H, graph.constant(0.0)), to=_DOUBLE)
    if rule.ties is None:
        second = graph.constant(0.0)
    else:
        labels = np.zeros_like(rule.table)
        labels[:, 1] = 1.0
        low, high = graph.constant(1e-9), graph.constant(1.0 - 1e-9)
        eta = graph.add("Clip", graph.weighted(rows, labels), low, high)
        odds = graph.add("Div", eta, graph.add("Sub", graph.constant(1.0), eta))
        score = graph.add("Add", graph.add("Log", odds), graph.weighted(rows, rule.ties))
        second = graph.add("Cast", graph.add("Greater", score, graph.constant(0.0)), to=_DOUBLE)
    decided = graph.add("Where", tied, second, chosen)
    decided = graph.add("Where", graph.add("IsNaN", H), H, decided)  # what is unknown is not 0
    if rule.atoms is None or rule.chances is None or not len(rule.atoms):
        graph.add("Identity", decided, name="probability")
        return
    apart = graph.add("Sub", graph.add("Unsqueeze", rows, graph.axes(1)), graph.constant(rule.atoms[None]))
    distance = graph.add("ReduceMax", graph.add("Abs", apart), axes=[2, 3], keepdims=0)
    nearest = graph.add("ArgMin", distance, axis=1, keepdims=0)
    here = graph.add("ReduceMin", distance, axes=[1], keepdims=0)
    found = graph.add("LessOrEqual", here, graph.constant(rule.resolution))
    chance = graph.add("Gather", graph.constant(rule.chances), nearest)
    graph.add("Where", found, chance, decided, name="probability")


def _by_steps(steps: Steps, graph: _Graph) -> None:
    most = max(map(len, steps.edges))
    edges = np.full((len(steps.edges), most), np.inf)
    chances = np.zeros((len(steps.edges), most + 1))
    for m, (own, chance) in enumerate(zip(steps.edges, steps.chances, strict=True)):
        edges[m, : len(own)], chances[m, : len(chance)] = own, chance
    # Gather counts negative numbers from the end, and refuses those that are too large.
    negative = graph.add("Less", "group", graph.constant(0, np.int64))
    group = graph.add("Where", negative, graph.constant(len(edges), np.int64), "group")
    eta = graph.add("Unsqueeze", "label_probability", graph.axes(1))
    above = graph.add("Greater", eta, graph.add("Gather", graph.constant(edges), group))
    passed = graph.add("ReduceSum", graph.add("Cast", above, to=_WHOLE), graph.axes(1), keepdims=0)
    first = graph.add("Mul", group, graph.constant(most + 1, np.int64))
    found = graph.add("Gather", graph.constant(chances.ravel()), graph.add("Add", first, passed))
    unknown = graph.add("IsNaN", "label_probability")
    graph.add("Where", unknown, "label_probability", found, name="probability")
