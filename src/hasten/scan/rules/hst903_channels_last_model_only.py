"""channels-last for the model and not for what goes into it."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ChannelsLastModelOnly(Rule):
    code = "HST903"
    name = "channels-last-model-only"
    why = "Inputs in the other layout are converted at each step, inside of the first layers."
    instead = "Also convert the input: `x.to(device, memory_format=torch.channels_last)`."
    effort = "a minute"
    risk = "rounding may differ"
    calls = ("to",)
    least = Heat.ONCE
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def build(model):
    return model.to(memory_format=torch.channels_last)  # !
""",
        """\
import torch

def train(model, loader, device):
    model = model.to(device, memory_format=torch.channels_last)
    for x in loader:
        model(x.to(device, memory_format=torch.channels_last)).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        layout = keyword(site.node, "memory_format")
        if layout is None or look.dotted(layout) != "torch.channels_last":
            return
        is_model = look.value(receiver(site.node), site).kind == "module"
        if is_model and look.text.count("channels_last") == 1:
            yield Found(site.node, "the model is channels-last, its input nowhere")
