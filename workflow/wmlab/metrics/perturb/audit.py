"""Audits of the SSF extractors: identity, coverage, swaps, field weights, transfer (memwm.txt Tables 6 to 8).

Identity consistency: two writings of one observation that differ in layout alone must give the same facts
and score 1. Coverage: how much of an observation the facts explain. Perturbed: with every name of an
observation swapped and every number changed it must score close to 0. Field weights: does the order of models
on WebShop depend on the weights? Transfer: the stress test on CookingWorld.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.metrics.perturb import shop
from wmlab.metrics.perturb.names import Naming, pool_of, swap_all
from wmlab.metrics.perturb.stress import Make, golds_of, numbers_changed, status_changed, stress, summarise
from wmlab.metrics.ssf import PARSERS, facts, ssf
from wmlab.metrics.ssf.webshop_page import read_page
from wmlab.metrics.text import exact_match, token_f1

MESSAGE = "MESSAGE("
TRANSFER_DOMAIN = "cookingworld"
RANDOM_SCHEMES = 20
"""Draws of the random ±20 % scheme; the table has their mean and range."""


def relaid(domain: str, text: str) -> str:
    """The observation with outer blank lines and doubled spaces, and nothing else changed."""
    return f"\n  {text.strip().replace(' ', '  ')} \n"


def identity(transitions: Sequence[Mapping[str, Any]], domain: str, n: int, seed: int) -> dict[str, Any]:
    """Table 6 of one domain over at most ``n`` distinct observations.

    ``identity``: share of observations whose facts are the same after a change of layout; ``score``: mean,
    min and max of SSF between both writings; ``coverage``: share with a fact that is no MESSAGE; ``explained``:
    share of characters outside MESSAGE facts (white space collapsed); ``perturbed``: SSF with every name swapped
    and number changed, over the observations that have any; those that name nothing are counted as ``n_bare``.
    """
    golds = golds_of(transitions, domain, seed)[:n]
    if not golds:
        raise InputError(f"audit: no observation of domain {domain!r}; give its transitions")
    texts = [gold.text for gold in golds]
    parsed = [facts(domain, text) for text in texts]
    same = [facts(domain, relaid(domain, t)) == found for t, found in zip(texts, parsed, strict=True)]
    scores = [ssf(domain, relaid(domain, text), text) for text in texts]
    messages = [[fact[len(MESSAGE) : -1] for fact in found if fact.startswith(MESSAGE)] for found in parsed]
    covered = [len(found) > len(unknown) for found, unknown in zip(parsed, messages, strict=True)]
    lengths = [len(" ".join(text.split())) for text in texts]
    unknown = [min(n, sum(map(len, found))) for n, found in zip(lengths, messages, strict=True)]
    return {
        "n": len(texts),
        "identity": float(np.mean(same)),
        "score": spread(scores),
        "coverage": float(np.mean(covered)),
        "explained": 1.0 - sum(unknown) / sum(lengths),
        "perturbed": _perturbed(domain, texts, seed),
    }


def _perturbed(domain: str, texts: Sequence[str], seed: int) -> dict[str, Any]:
    """``n`` and the spread of SSF and mean word F1 over the observations that could be changed."""
    change = _changer(domain, texts)
    rng = np.random.default_rng(seed)
    pairs = [(changed, text) for text in texts if (changed := change(text, rng)) is not None]
    bare = len(texts) - len(pairs)
    if not pairs:
        return {"n": 0, "n_bare": bare, "mean": None, "min": None, "max": None, "f1": None}
    overlaps = [token_f1(*pair) for pair in pairs]
    return {**spread([ssf(domain, *pair) for pair in pairs]), "n_bare": bare, "f1": float(np.mean(overlaps))}


def _changer(domain: str, texts: Sequence[str]) -> Make:
    """What swaps every name and changes every number of an observation; None where it has neither."""
    if domain == "webshop":
        pages = [read_page(text) for text in texts]
        steps: list[Make] = [
            lambda text, rng: shop.product_swap(text, pages, rng),
            shop.price_change,
            shop.count_change,
        ]
    else:
        pool = pool_of(domain, texts)
        steps = [
            lambda text, rng: swap_all(Naming.of(domain, text), pool, rng),
            status_changed if domain == "textworld" else numbers_changed,
        ]

    def change(text: str, rng: np.random.Generator) -> str | None:
        changed = text
        for step in steps:
            changed = step(changed, rng) or changed
        return changed if changed != text else None

    return change


def spread(values: Sequence[float]) -> dict[str, Any]:
    """n, mean, min and max of at least one value."""
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "min": float(min(values)),
        "max": float(max(values)),
    }


def weights(
    transitions: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    seed: int = 0,
    draws: int = RANDOM_SCHEMES,
) -> dict[str, Any]:
    """Table 7: mean WebShop SSF of each model under the paper's weights and five other schemes.

    ``predictions`` maps a model to its rows of contract ``predictions``; only transitions that all models
    predicted are compared. The fifth scheme draws every weight within ±20 %, ``draws`` times: ``means`` has
    the mean over draws, ``range`` the smallest and largest. ``margins``: per scheme the difference of the
    last model and each other, and for the random one the share of draws whose margin has the paper's sign.
    Raises InputError when no WebShop transition was predicted by all.
    """
    from wmlab.metrics.ssf.webshop import PAPER, SCHEMES, similarities

    golds = {row["transition_id"]: row["observation"] for row in transitions if row["domain"] == "webshop"}
    by_model = {
        m: {row["transition_id"]: row["prediction"] for row in rows} for m, rows in predictions.items()
    }
    shared = sorted(set(golds).intersection(*by_model.values())) if by_model else []
    if not shared:
        raise InputError("audit: no WebShop transition was predicted by every model; give their predictions")
    pages = [read_page(golds[key]) for key in shared]
    fields = {m: [similarities(read_page(rows[k]), p) for k, p in zip(shared, pages, strict=True)] for m, rows in by_model.items()}  # fmt: skip

    def mean(scheme: Any, model: str) -> float:
        scored = [scheme.score(p.kind, f) for p, f in zip(pages, fields[model], strict=True)]
        return float(np.mean(scored))

    rng = np.random.default_rng(seed)
    drawn = [PAPER.perturbed(f"random {i + 1}", rng) for i in range(draws)]
    means = {scheme.name: {model: mean(scheme, model) for model in fields} for scheme in SCHEMES}
    random = {model: [mean(scheme, model) for scheme in drawn] for model in fields}
    means["random ±20 %"] = {model: float(np.mean(values)) for model, values in random.items()}
    last = list(fields)[-1]
    margins = {
        name: {model: row[last] - row[model] for model in row if model != last} for name, row in means.items()
    }
    kept = {
        model: float(np.mean([np.sign(a - b) == np.sign(margins[PAPER.name][model]) for a, b in zip(random[last], random[model], strict=True)]))
        for model in fields
        if model != last
    }  # fmt: skip
    return {
        "n": len(shared),
        "models": list(fields),
        "means": means,
        "range": {model: [min(values), max(values)] for model, values in random.items()},
        "margins": margins,
        "random_draws_with_the_papers_sign": kept,
        "seed": seed,
    }


def transfer(transitions: Sequence[Mapping[str, Any]], *, per_class: int, seed: int) -> dict[str, Any] | None:
    """Table 8: the stress test on CookingWorld by kind of change; None without its transitions."""
    rows = [row for row in transitions if row["domain"] == TRANSFER_DOMAIN]
    if not rows:
        return None
    return dict(summarise(stress(rows, per_class=per_class, seed=seed))["kinds"][TRANSFER_DOMAIN])


def audit(
    transitions: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    n: int,
    per_class: int,
    seed: int,
) -> dict[str, Any]:
    """Tables 6, 7 and 8 for the domains at hand; a table without its data is null.

    Raises InputError when no transition belongs to a domain with an SSF parser.
    """
    domains = sorted({row["domain"] for row in transitions} & set(PARSERS))
    if not domains:
        raise InputError("audit: no transition of a domain with an SSF parser; give other transitions")
    return {
        "schema": 1,
        "seed": seed,
        "identity": {domain: identity(transitions, domain, n, seed) for domain in domains},
        "webshop_weights": weights(transitions, predictions, seed=seed) if predictions else None,
        "transfer": transfer(transitions, per_class=per_class, seed=seed),
        "agreement": None,
    }


def pair_scores(domain: str, prediction: str, gold: str) -> dict[str, float]:
    """EM, word F1 and SSF of one pair, as the agreement table compares them."""
    return {
        "em": exact_match(prediction, gold),
        "f1": token_f1(prediction, gold),
        "ssf": float(ssf(domain, prediction, gold)),
    }
