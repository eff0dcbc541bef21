"""Words of torch, NumPy and pandas, and what they give back. Facts only: no logic."""

import re


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TORCH = frozenset((
    "torch", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft",
    "torchaudio.functional", "torchvision.ops", "torch_scatter", "torch.nn.utils.rnn", "einops",
    "torch.distributions", "torch.distributions.kl", "torch_geometric.utils",
))  # fmt: skip
"""Modules whose functions give tensors, but for the ones below."""

TORCH_GIVES_NO_TENSOR = words(
    "device dtype Size no_grad enable_grad inference_mode set_grad_enabled autocast compile jit"
    " is_tensor is_floating_point is_grad_enabled manual_seed seed save load set_num_threads"
    " get_num_threads set_default_dtype get_default_dtype numel Generator typename finfo iinfo"
    " set_float32_matmul_precision use_deterministic_algorithms set_printoptions split chunk unbind"
    " promote_types result_type is_complex are_deterministic_algorithms_enabled equal allclose"
    " meshgrid broadcast_tensors broadcast_shapes export get_rng_state set_rng_state"
)
MADE_ON_HOST = words(
    "tensor as_tensor from_numpy zeros ones empty full rand randn randint randperm arange linspace"
    " eye normal FloatTensor LongTensor Tensor IntTensor BoolTensor DoubleTensor ByteTensor"
    " HalfTensor ShortTensor tril_indices"
    " triu_indices logspace hann_window hamming_window blackman_window kaiser_window"
)
"""Of these, what has no ``device=`` and no input on a device lies on the host."""

TAKE_NO_TENSOR = TORCH_GIVES_NO_TENSOR | (MADE_ON_HOST - {"normal"})
"""Functions of torch whose first argument need not be a tensor."""

TENSOR_GIVES_NO_TENSOR = words(
    "item tolist numpy size dim numel stride ndimension is_contiguous element_size data_ptr"
    " backward is_floating_point get_device nelement storage register_hook requires_grad_"
    " is_complex is_signed is_leaf is_set_to _nnz sparse_dim dense_dim is_same_size equal allclose"
    " is_pinned is_cuda chunk split unbind type share_memory_"
)
TENSOR_METHODS = words(
    "detach cpu cuda to float half double long int bool view reshape permute transpose squeeze"
    " unsqueeze flatten expand repeat contiguous clone sum mean max min argmax argmin softmax"
    " log_softmax sigmoid tanh relu exp log sqrt pow abs clamp masked_fill gather index_select"
    " scatter topk sort argsort cumsum norm matmul mm bmm eq ne lt gt le ge any all nonzero isnan"
    " isinf isfinite masked_select new_zeros new_ones new_tensor type_as add mul div sub add_ mul_"
    " sub_ div_ fill_ zero_ copy_ t std var prod round floor ceil roll flip expand_as view_as"
    " logsumexp bfloat16 pin_memory unfold baddbmm addmm dot outer sign neg item"
)
"""Names that hardly anything but a tensor has as methods."""
ONLY_TENSORS_HAVE = words(
    "unsqueeze detach masked_fill log_softmax index_select masked_select logsumexp view_as"
    " new_zeros new_ones new_tensor type_as expand_as bfloat16 requires_grad_ bmm isfinite"
    " contiguous permute clamp softmax sigmoid argmax long bool masked_fill_ index_fill_ scatter_"
    " log_prob rsample entropy"
)

LAUNCH_NOTHING = words(
    "view reshape unsqueeze squeeze permute transpose t expand expand_as detach size dim numel item"
    " cpu cuda to tolist numpy contiguous float long int bool half double type append type_as"
    " requires_grad_ element_size is_cuda tensor as_tensor from_numpy device zeros empty"
)
"""What launches nothing, moves or converts."""

ATTRIBUTES_OF_TENSORS = words("T mT H grad data real imag")
PARTS_OF_RESULTS = ("loss", "logits", "output", "scores", "hidden_state", "values", "indices")
"""How attributes end of what models and ``torch.max`` give, where they are tensors."""

DRAWN_WITH = {
    "rand": 0, "randn": 0, "random": 0, "random_sample": 0, "choice": 1, "randint": 2,
    "integers": 2, "uniform": 2, "normal": 2, "binomial": 2, "beta": 2, "geometric": 1,
}  # fmt: skip
"""Functions of ``numpy.random``: with how many arguments at most they draw one number."""

OF_NUMBERS = words("sqrt exp log log2 log10 sin cos tan abs ceil floor float32 float64 int64 power")
"""Functions of NumPy that give a number for a number."""

GENERATORS = re.compile(r"(^|[._])(rng|random_state|rand_state|np_random|RandomState)$")
"""How generators of NumPy are called."""

KEYS_OF_TENSORS = ("loss", "logits", "scores", "hidden_state", "embeddings", "_mask", "_ids")
RESULTS = re.compile(r"(^|_)(out|outs|outputs?|batch|results?|preds?|predictions?|losses|inputs?)$")
"""What dicts are called that hold such."""

GIVES_SCORES = re.compile(r"(^|_)(logits|log_?probs|hidden_states)$")
"""How methods of models are called that give tensors."""
OPTIMIZERS = words(
    "Adam AdamW SGD RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop LBFGS SparseAdam"
    " Adafactor Muon"
)
MAKES_TENSOR = re.compile(
    r"(^|_)(to|as|into|2|get)_?(a_)?(torch|tensor|tensors)$|^_*(torchify|tensorize|from_numpy|tensorify)$"
)
"""How functions are called that make a tensor of an array."""
ON_HOST = words("batch_sizes")
"""Tensors that torch keeps on the host: those of a packed sequence."""
COMPUTES_LOSS = re.compile(r"^_*(\w+_)?(loss|losses|criterion|objective)(_fn|_func|_function)?$")
"""How functions are called that compute a loss, or several."""
LOADERS = words("DataLoader StatefulDataLoader FastDataLoader MultiEpochsDataLoader NeighborLoader")
MAKES_LOADER = re.compile(
    r"^_*((get|make|build|create|prepare|init|construct|setup|train|val|valid|validation|test|eval"
    r"|predict|new)_(\w+_)?loader|(\w+_)?data_?loader)$"
)
"""How functions are called that give a loader; a mere ``loader`` mostly reads a file."""
DATASETS = words("TensorDataset Subset ConcatDataset ImageFolder DatasetFolder")
FRAMES = words("DataFrame read_csv read_parquet read_excel read_feather read_table")
STORES = words("h5py.File zarr.open zarr.open_group")
"""What opens a file of named arrays."""
LR_SCHEDULERS = "torch.optim.lr_scheduler"

LOADER_WORDS = ("loader", "_dl")
BATCHES_WORDS = ("batches", "batch_iter")
"""Of these it is open where they lie: on the device, if they come from a trainer."""
TENSOR_PARAMETERS = words(
    "x y z h q k v input inputs target targets logits logit label labels mask masks hidden"
    " output outputs pred preds predictions y_pred y_true loss losses emb embedding embeddings"
    " query key value queries keys values attn_mask attention_mask input_ids hidden_states src tgt"
    " img image images feat feats features noise scores probs weights grad_output xs ys timesteps"
    " context memory query_embeddings seq lengths lens logprobs log_probs values returns"
    " advantages rewards dones obs observations estimate estimates prediction y_hat source tgts"
    " gt ground_truth mu logvar log_var real fake anchor positive negative"
)
"""What parameters of ``forward`` and of losses are called where they are tensors."""


BATCHES = words("batch data graph minibatch mini_batch sample samples")
"""And what they are called where they hold several."""

COUNT = re.compile(r"^(n|num|nb)_|(^|_)(size|dim|dims|count|width|height|bsz?|shape)$")
"""How numbers are called that say how much there is of something."""
COUNTS = ("num_", "n_", "max_", "min_", "len_", "use_", "is_", "has_")
ENDS_OF_TENSORS = (
    "_mask", "_emb", "_embs", "_embedding", "_embeddings", "_logits", "_scores", "_labels", "_lens",
    "_lengths", "_pred", "_preds", "_true", "_targets", "_target", "_probs", "_tensor", "_hat",
    "_batch", "_ids",
)  # fmt: skip


def is_tensor_parameter(name: str) -> bool:
    return name in TENSOR_PARAMETERS or (
        name.endswith(ENDS_OF_TENSORS) and not name.startswith(COUNTS)
    )
