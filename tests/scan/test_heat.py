"""How often lines are said to run."""

import ast

import pytest

from hasten.scan.heat import Heat, Heats
from hasten.scan.traversal import outline
from hasten.scan.values import Values


def heat_of_loop(text: str, number: int = -1) -> Heat | None:
    """Of a loop of the text, the last unless told."""
    found = outline(ast.parse(text), (), ())
    loops = [loop for function in found.functions for loop in function.loops]
    return Heats(found, Values(found)).kind_of(loops[number])


@pytest.mark.parametrize(
    ("over", "heat"),
    [
        ("loader", Heat.STEP),
        ("data_iterator", Heat.STEP),
        ("range(n_epochs)", Heat.EPOCH),
        ("range(steps_per_epoch)", Heat.STEP),
        ("range(0, images_per_epoch, size)", Heat.STEP),
        ("things", None),
    ],
)
def test_a_loop_is_told_by_what_it_goes_over(over: str, heat: Heat | None) -> None:
    assert heat_of_loop(f"for each in {over}:\n    work(each)") == heat


def test_a_loop_that_trains_each_turn_is_one_of_steps_even_if_it_counts_epochs() -> None:
    text = """
def fit(model, x, epochs):
    for epoch in range(epochs):
        model(x).backward()
"""
    assert heat_of_loop(text) == Heat.STEP


@pytest.mark.parametrize(
    ("inside", "heat"),
    [
        ("for minibatch in parts: work(minibatch)", Heat.EPOCH),
        ("for part in parts:\n            for batch in part: work(batch)", Heat.EPOCH),
        ("for part in parts: work(part)", Heat.STEP),
        ("model(parts)\n        for batch in parts: work(batch)", Heat.STEP),
    ],
)
def test_a_loop_that_counts_steps_and_goes_over_batches_in_each_is_one_of_epochs(
    inside: str, heat: Heat
) -> None:
    text = f"def fit(model, parts):\n    for step in range(9):\n        {inside}\n"
    assert heat_of_loop(text, 0) == heat


def test_a_loop_that_runs_a_model_is_one_of_steps() -> None:
    text = """
def sample(model, x, times):
    for now, after in times:
        x = model(x, now)
"""
    assert heat_of_loop(text) == Heat.STEP


@pytest.mark.parametrize(
    ("definition", "prepares"),
    [
        ("class Rows(Dataset):\n    def read(self): ...", True),
        ("class Encoder:\n    def smart_collate(self, batch): ...", True),
        ("class Crop(Transform):\n    def __getitem__(self, i): ...", True),
        ("class RandomTransform:\n    def __call__(self, x): ...", True),
        ("class SpatialTransform(nn.Module):\n    def forward(self, x): ...", False),
        ("class Net(nn.Module):\n    def forward(self, x): ...", False),
    ],
)
def test_what_prepares_samples_is_told_from_what_trains(definition: str, prepares: bool) -> None:
    found = outline(ast.parse(definition), (), ())
    assert Heats(found, Values(found)).prepares_data(found.functions[1]) is prepares


@pytest.mark.parametrize(
    ("name", "heat"), [("forward_masks", Heat.STEP), ("__call__", Heat.STEP), ("fit", Heat.ONCE)]
)
def test_a_methods_name_says_how_often_it_runs(name: str, heat: Heat) -> None:
    found = outline(ast.parse(f"class Mixer:\n    def {name}(self, x): ..."), (), ())
    assert Heats(found, Values(found)).of_role(found.functions[1]) == heat


def test_a_function_that_goes_back_once_is_a_step() -> None:
    text = """
class Agent:
    def learn(self, batch):
        self.loss(batch).backward()
"""
    found = outline(ast.parse(text), (), ())
    assert Heats(found, Values(found)).of_role(found.functions[1]) == Heat.STEP


def test_a_loop_that_steps_an_environment_is_one_of_steps() -> None:
    assert heat_of_loop("while not done:\n    state, done = envs.step(act(state))") == Heat.STEP
    assert heat_of_loop("while not done:\n    scheduler.step()") is None


@pytest.mark.parametrize(
    ("definition", "heat"),
    [
        ("def focal_loss(logits, targets): ...", Heat.STEP),
        ("def plot_loss(path): ...", Heat.ONCE),
        ("def read(x): ...", Heat.ONCE),
    ],
)
def test_a_loss_of_tensors_is_computed_every_step(definition: str, heat: Heat) -> None:
    found = outline(ast.parse(definition), (), ())
    assert Heats(found, Values(found)).of_role(found.functions[1]) == heat


def test_a_while_over_steps_is_one_of_steps_wherever_the_word_stands() -> None:
    text = """
while self.step < self.train_num_steps:
    for _ in range(accumulate):
        loss.backward()
    update(self)
"""
    assert heat_of_loop(text, 0) == Heat.STEP
    assert heat_of_loop("while queue.full():\n    wait()") is None


@pytest.mark.parametrize(
    ("loop", "heat"),
    [
        ("for batch in things:\n    work(batch)", Heat.STEP),
        ("for number, batch in enumerate(self.things):\n    work(batch)", Heat.STEP),
        ("for part in parts:\n    self.critic_optim.step(part)", Heat.STEP),
        ("for part in self.data_iter:\n    work(part)", Heat.STEP),
        ("for part in parts:\n    self.clock.step(part)", None),
    ],
)
def test_a_loop_is_one_of_steps_by_its_target_or_by_what_it_does(
    loop: str, heat: Heat | None
) -> None:
    assert heat_of_loop(loop) == heat


@pytest.mark.parametrize(
    ("function", "heat"),
    [
        ("def blend(x, share):\n    return torch.lerp(x, x, share)", Heat.STEP),
        ("def blend(x: torch.Tensor): ...", Heat.STEP),
        ("def collate(x: torch.Tensor): ...", Heat.ONCE),
        ("def blend(x): ...", Heat.ONCE),
    ],
)
def test_a_function_that_takes_tensors_is_taken_for_a_part_of_a_step(
    function: str, heat: Heat
) -> None:
    found = outline(ast.parse(f"import torch\n{function}"), (), ())
    assert Heats(found, Values(found)).of_use(found.functions[1]) == heat


@pytest.mark.parametrize("name", ["__init__", "load_weights", "fit", "train_epoch_search", "gae"])
def test_some_names_say_that_a_function_is_called_now_and_then(name: str) -> None:
    found = outline(ast.parse(f"def {name}(x): ..."), (), ())
    assert Heats(found, Values(found)).is_seldom(found.functions[1])


@pytest.mark.parametrize(
    ("owner", "name", "heat"),
    [
        ("ReplayBuffer", "sample", Heat.STEP),
        ("ReplayBuffer", "_sample_proportional", Heat.STEP),
        ("ReplayBuffer", "update_priorities", Heat.STEP),
        ("ReplayBuffer", "draw_figure", Heat.ONCE),
        ("ReplayBuffer", "fetch_file", Heat.ONCE),
        ("ReplayBuffer", "sample_rate", Heat.ONCE),
        ("ReplayBuffer", "save", Heat.ONCE),
        ("ReplayBuffer", "sample_timesteps", Heat.STEP),
        ("SumTree", "important_sampling", Heat.STEP),
        ("Normal", "sample", Heat.ONCE),
    ],
)
def test_a_buffer_is_drawn_from_every_step(owner: str, name: str, heat: Heat) -> None:
    found = outline(ast.parse(f"class {owner}:\n    def {name}(self, size): ..."), (), ())
    assert Heats(found, Values(found)).of_role(found.functions[1]) == heat


def test_what_rows_are_added_to_and_sampled_from_is_a_buffer() -> None:
    text = "class Steps:\n    def push(self, row): ...\n    def sample(self, size): ..."
    found = outline(ast.parse(text), (), ())
    roles = [Heats(found, Values(found)).of_role(each) for each in found.functions[1:]]
    assert roles == [Heat.ONCE, Heat.STEP]


@pytest.mark.parametrize(
    ("text", "heat"),
    [
        ("def soft_update(net, target): ...", Heat.STEP),
        ("def update_ema(net, average): ...", Heat.STEP),
        ("class EMA:\n    def update(self): ...", Heat.STEP),
        ("class ExponentialMovingAverage:\n    def apply(self, count): ...", Heat.STEP),
        ("class Sharp(torch.optim.Optimizer):\n    def first_step(self): ...", Heat.STEP),
        ("class Mine(torch.optim.AdamW):\n    def step(self): ...", Heat.STEP),
        ("class Mine(torch.optim.AdamW):\n    def share_memory(self): ...", Heat.ONCE),
        ("class EMAModel:\n    def step(self): ...", Heat.STEP),
        ("class ModelEMA:\n    def update(self): ...", Heat.STEP),
        ("class Schema:\n    def update(self): ...", Heat.ONCE),
        ("class SCHEMA:\n    def update(self): ...", Heat.ONCE),
        ("class EMAIL:\n    def update(self): ...", Heat.ONCE),
    ],
)
def test_what_updates_weights_or_averages_of_them_runs_every_step(text: str, heat: Heat) -> None:
    found = outline(ast.parse(f"import torch\n{text}"), (), ())
    assert Heats(found, Values(found)).of_role(found.functions[-1]) == heat


@pytest.mark.parametrize(
    ("body", "heat"),
    [
        ("self.opt.step()", Heat.STEP),
        ("scaler.step(self.optimizer)", Heat.STEP),
        ("self.world.step()", Heat.ONCE),
    ],
)
def test_a_function_that_updates_weights_once_is_a_step(body: str, heat: Heat) -> None:
    text = f"def learn(self, scaler):\n    for x in self.parts:\n        x.backward()\n    {body}\n"
    found = outline(ast.parse(text), (), ())
    heats = Heats(found, Values(found))
    assert heats.of_role(found.functions[1]) == heat


def role_of(text: str, name: str) -> Heat:
    """Of a function of the text, by its dotted name."""
    found = outline(ast.parse(text), (), ())
    return Heats(found, Values(found)).of_role(found.named[name])


@pytest.mark.parametrize(
    ("name", "heat"),
    [
        ("before_batch", Heat.STEP),
        ("after_training_iteration", Heat.STEP),
        ("on_before_zero_grad", Heat.STEP),
        ("after_epoch", Heat.ONCE),
        ("before_fit", Heat.ONCE),
    ],
)
def test_hooks_of_a_step_run_in_every_step(name: str, heat: Heat) -> None:
    assert role_of(f"class Plugin(Base):\n    def {name}(self): ...", f"Plugin.{name}") == heat


def test_a_metric_counts_every_batch_and_computes_once() -> None:
    text = """
class Recall(Metric):
    def update(self, given): ...
    def compute(self): ...
class Registry(dict):
    def update(self, given): ...
    def compute(self): ...
"""
    assert role_of(text, "Recall.update") == Heat.STEP
    assert role_of(text, "Recall.compute") == Heat.ONCE
    assert role_of(text, "Registry.update") == Heat.ONCE


def test_what_computes_a_loss_runs_in_every_step_and_what_chooses_one_does_not() -> None:
    text = """
def get_loss(items):
    return (items.values - items.wanted).mean()
def make_loss(name):
    return {"l1": L1, "l2": L2}[name]()
def validation_loss(model, loader):
    for batch in loader:
        model(batch).sum()
"""
    assert role_of(text, "get_loss") == Heat.STEP
    assert role_of(text, "make_loss") == Heat.ONCE
    assert role_of(text, "validation_loss") == Heat.ONCE


def test_a_loop_that_calls_what_updates_a_model_is_one_of_steps() -> None:
    assert heat_of_loop("for each in things:\n    self.optimizer_update(each)") == Heat.STEP
    assert heat_of_loop("for each in things:\n    self.dict_update(each)") is None
