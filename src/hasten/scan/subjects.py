"""Which words show that what a rule is about is in a file.

Many rules look at calls that say little by themselves: ``step`` of a scaler that is bypassed is
also that of every optimizer. Only where a word alone tells can it be said that a rule was met; of
rules that are not here it is not known.
"""

from hasten.scan.vocabulary import words

POOLS = "Pool ProcessPoolExecutor ThreadPoolExecutor ThreadPool"
CLIPS = "clip_grad_norm_ clip_grad_value_ clip_grad_norm"
SUBJECTS = {
    code: words(named)
    for code, named in {
        "HST101": "DataLoader",
        "HST102": "*Loader",
        "HST103": "*Loader",
        "HST106": "imread read_image ReadImage loadtxt",
        "HST108": "word_tokenize sent_tokenize batch_encode_plus encode_plus",
        "HST110": "applymap progress_apply parallel_apply",
        "HST111": "iterrows",
        "HST114": "quantile percentile nanpercentile nanquantile",
        "HST117": "tolist to_list",
        "HST121": "DataLoader",
        "HST123": "collate_fn collate default_collate",
        "HST125": "DataFrame",
        "HST129": "toarray todense getrow getcol",
        "HST130": "deepcopy",
        "HST132": "permutation randperm",
        "HST134": "groupby",
        "HST140": "execute fetchone",
        "HST145": POOLS,
        "HST152": "from_numpy",
        "HST201": "item",
        "HST204": "cpu tolist",
        "HST207": "cuda",
        "HST209": "nonzero masked_select argwhere unique unique_consecutive",
        "HST212": "get_scale",
        "HST217": "synchronize",
        "HST218": "pin_memory",
        "HST219": "perf_counter monotonic",
        "HST301": "empty_cache",
        "HST305": "one_hot",
        "HST306": "tile repeat_interleave",
        "HST402": "Adam AdamW",
        "HST414": "named_modules",
        "HST423": "PriorityQueue",
        "HST425": "zero_grad",
        "HST426": "set_detect_anomaly detect_anomaly",
        "HST427": "vectorize apply_along_axis apply_over_axes frompyfunc",
        "HST432": "one_hot",
        "HST439": "sparse_coo_tensor",
        "HST444": "argsort",
        "HST447": "diag_embed diagflat inverse",
        "HST501": "DataParallel",
        "HST503": "DistributedSampler",
        "HST504": "DistributedDataParallel DDP",
        "HST505": "barrier wait_for_everyone monitored_barrier",
        "HST506": "all_reduce allreduce",
        "HST509": "all_gather_object gather_object broadcast_object_list scatter_object_list",
        "HST604": CLIPS,
        "HST605": "GradScaler",
        "HST606": "autocast",
        "HST608": "autocast",
        "HST609": "GradScaler",
        "HST614": "zero_grad",
        "HST616": CLIPS,
        "HST617": "no_sync",
        "HST622": "forward",
        "HST624": "nested_compile_region",
        "HST625": "get_device_capability",
        "HST626": "sdpa_kernel sdp_kernel",
        "HST627": "benchmark deterministic",
        "HST640": "DataLoader",
        "HST646": "default_rng RandomState",
        "HST654": "quantize_dynamic",
        "HST659": POOLS,
        "HST901": "autocast GradScaler",
        "HST905": "use_deterministic_algorithms deterministic",
    }.items()
}
"""Calls, and attributes that are set, by the code of the rule."""
