"""A whole evaluation whenever something is logged."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

LOGS = re.compile(r"(^|_)(log|logging|print|report|summary)(_|$)")
EVALUATES = re.compile(r"^_?(run_)?(eval|evaluate|evaluation|validate|validation)(_|$)")


class EvaluatedWhileLogging(Rule):
    code = "HST446"
    name = "evaluated-while-logging"
    why = (
        "What is logged often is cheap to log; an evaluation goes over all of its data, so that"
        " it may take as long as the training between."
    )
    instead = "Give the evaluation an interval of its own, or evaluate once an epoch."
    risk = "none: it is evaluated less often"
    effort = "a minute"
    nodes = (ast.If,)
    in_loops = True
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(args, model, loader, evaluator, writer):
    for step, batch in enumerate(loader):
        model(batch).loss.backward()
        if args.logging_steps > 0 and step % args.logging_steps == 0:
            if args.evaluate_during_training:
                results = evaluate(args, model)  # !
                writer.add_scalar("eval", results)
        if step % args["log_interval"] == 0:
            results = evaluator.eval_model(model)  # !
""",
        """\
import torch

def train(args, model, loader, writer):
    for step, batch in enumerate(loader):
        model(batch).loss.backward()
        if step % args.eval_steps == 0:
            evaluate(args, model)
        if step % args.logging_steps == 0:
            writer.add_scalar("loss", step)
            model.eval()
        if step == args.logging_steps:
            evaluate(args, model)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.If = site.node
        if not any(_counts_to_log(each) for each in walk(node.test)):
            return
        for statement in node.body:
            for each in walk(statement):
                if isinstance(each, ast.Call) and each.args and EVALUATES.match(called_name(each)):
                    yield Found(each, f"`{called_name(each)}` runs whenever something is logged")
                    return


def _counts_to_log(node: ast.AST) -> bool:
    """``step % logging_steps``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    match node.right:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return bool(LOGS.search(name))
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return bool(LOGS.search(name))
    return False
