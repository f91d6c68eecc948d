"""Names of methods, metrics and changes in every table and figure, so that they agree everywhere."""

from __future__ import annotations

from collections.abc import Iterable

METHOD_LABELS = {
    "copy": "Copy",
    "w2w": "W2W",
    "f1": "F1",
    "em": "EM (SurR)",
    "behr": "BehR",
    "more_sft": "W2W+",
    "mem_sft": "Mem-SFT",
    "mem_behr": "Mem-BehR",
}
"""Method id → name in tables. ``em`` is the exact-match reward, the paper's SurR (behr.txt, Appendix D)."""

METHOD_NOTES = {
    "copy": "Copy: the observation of the most similar training transition, no model.",
    "w2w": "W2W: the supervised world model that every GRPO method starts from.",
    "f1": "F1: GRPO with the token F1 reward.",
    "em": "EM (SurR): GRPO with the exact-match reward.",
    "behr": "BehR: GRPO with the behaviour-consistency reward.",
    "more_sft": "W2W+: trained as Mem-SFT is, from the same start by as many steps, without memory: its control.",
    "mem_sft": "Mem-SFT: trained to read memory blocks, from W2W or from scratch (`memory.start`), and asked with them.",
    "mem_behr": "Mem-BehR: GRPO with the behaviour-consistency reward from Mem-SFT, with memory blocks.",
}

_METRICS = {
    "behr": "BehR",
    "multi_action_behr": "Multi-action BehR",
    "acs": "ACS",
    "judge": "LLM judge",
    "f1": "Word F1",
    "bertscore": "BERTScore",
    "rouge_l": "ROUGE-L",
    "em": "EM",
    "ssf": "SSF",
}

PERTURBATION_LABELS = {
    "oracle": "Oracle",
    "reorder": "Reorder",
    "drop_irrelevant": "Drop Irrelevant",
    "truncate": "Truncate",
    "drop_target": "Drop Target",
    "replace_target": "Replace Target",
    "unrelated": "Unrelated",
}

CHANGE_LABELS = {
    "paraphrase": "Paraphrase, layout",
    "entity": "Object, place, entity",
    "value": "Id, price, number, option",
    "state": "State flip",
}
"""Classes of change of the stress test (memwm.txt, Figure 3)."""

_ORDER = tuple(METHOD_LABELS)


def method_label(method: str) -> str:
    """Display name of a method id; an unknown id is its own name."""
    return METHOD_LABELS.get(method, method)


def metric_label(metric: str) -> str:
    """Display name of a metric; an unknown one is its own name."""
    return _METRICS.get(metric, metric)


def kind_label(kind: str) -> str:
    """Display name of a kind of change: ``location_swap`` is ``Location swap``."""
    return kind.replace("_", " ").capitalize()


def method_key(method: str) -> tuple[int, str]:
    """Sort key: baselines, then controls, then BehR, then other methods by name."""
    return (_ORDER.index(method) if method in _ORDER else len(_ORDER), method)


def ordered_methods(methods: Iterable[str]) -> list[str]:
    """Distinct methods in table order."""
    return sorted(set(methods), key=method_key)
