"""A byte-level BPE tokenizer trained on the study's own text.

Environment text is formulaic, so merges may cross spaces inside a sentence: a TextWorld trajectory
takes about 350 tokens instead of 1,280 with word-bounded merges. Sentences end at ``.``, ``!``, ``?``,
``,`` or a line break; digits stand alone, so that scores and turn counters stay countable, unless the
recipe merges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from wmlab.config.recipes import TokenizerRecipe

ROLES = ("system", "user", "assistant")
END = "<|end|>"
PAD = "<|pad|>"
# One special token opens each turn and one closes it: no merge can cross a turn, so the ids of a
# dialogue are always a prefix of the ids of its continuation.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_FIELD = r" ?\[SEP\] ?"  # WebShop's pages are fields between these: a title is the same tokens on every page
_TEXT = rf"(?:(?!{_FIELD})[^\n.!?,:])"
_SENTENCE = rf"{_FIELD}|\n+|{_TEXT}*[.!?,:]+ ?|{_TEXT}+"


def train_tokenizer(texts: Iterable[str], recipe: TokenizerRecipe, phrases: Sequence[str] = ()) -> Any:
    """Train on ``texts`` and return a ``PreTrainedTokenizerFast`` with the chat template above.

    ``phrases`` become one token each: what the texts never say but prompts repeat.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    specials = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    core = Tokenizer(models.BPE())
    digits = [pre_tokenizers.Digits(individual_digits=True)] if recipe.digits == "single" else []
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SENTENCE), "isolated"),
            *digits,
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab_size,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=200,
    )
    core.train_from_iterator(texts, trainer)
    core.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def load_tokenizer(path: str | Path) -> Any:
    """Load a tokenizer folder (``trust_remote_code`` stays off)."""
    from transformers import AutoTokenizer

    from wmlab.errors import InputError

    if not Path(path).is_dir():
        raise InputError.at(path, "no tokenizer folder there", "make it with `wmlab train tokenizer`")
    return AutoTokenizer.from_pretrained(str(path))


def encode_chat(tokenizer: Any, chat: Iterable[dict[str, str]], *, generation_prompt: bool) -> list[int]:
    """Token ids of a dialogue under the tokenizer's chat template, thinking switched off where it can be.

    What the template writes and what a turn says are encoded apart, so that no token joins them: an observation that
    begins with a line break has the ids that a model generates after its prompt, and the ids of a dialogue begin those
    of its continuation. Text that spells a special token is text: it is broken so that it cannot open or close a turn.
    Raises ValueError for a template that drops or repeats a turn.
    """
    if tokenizer.chat_template == CHAT_TEMPLATE:
        ids = [i for m in chat for i in _turn_ids(tokenizer, m["role"], m["content"])]
        return [*ids, tokenizer.convert_tokens_to_ids("<|assistant|>")] if generation_prompt else ids
    turns = [(m["role"], m["content"]) for m in chat]
    if not _joins_plainly(tokenizer):
        messages = [{"role": role, "content": _inert(tokenizer, content)} for role, content in turns]
        return _templated(tokenizer, messages, generation_prompt, tokenize=True)  # type: ignore[no-any-return]
    first, *others = _frame(tokenizer, tuple(role for role, _ in turns), generation_prompt)
    ids = list(_piece_ids(tokenizer, first))
    for (_, content), after in zip(turns, others, strict=True):
        ids += _piece_ids(tokenizer, _inert(tokenizer, content))
        ids += _piece_ids(tokenizer, after)
    return ids


def _templated(
    tokenizer: Any, messages: list[dict[str, str]], generation_prompt: bool, *, tokenize: bool
) -> Any:
    told = {"tokenize": tokenize, "add_generation_prompt": generation_prompt, "enable_thinking": False}
    return tokenizer.apply_chat_template(messages, **told, **({"return_dict": False} if tokenize else {}))


@lru_cache(maxsize=4096)
def _frame(tokenizer: Any, roles: tuple[str, ...], generation_prompt: bool) -> tuple[str, ...]:
    """What the template writes before, between and after the contents of turns of these roles."""
    marks = [f"\u27e6{index}\u27e7" for index in range(len(roles))]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    rest, pieces = str(_templated(tokenizer, messages, generation_prompt, tokenize=False)), []
    for mark in marks:
        before, found, rest = rest.partition(mark)
        if not found or mark in rest:
            raise ValueError("the chat template drops or repeats a turn")
        pieces.append(before)
    return (*pieces, rest)


@lru_cache(maxsize=65536)
def _piece_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False)) if text else ()


@lru_cache(maxsize=64)
def _joins_plainly(tokenizer: Any) -> bool:
    """Whether ids of two texts, one after the other, say the two texts and nothing between."""
    ids = [*_piece_ids(tokenizer, "one\n"), *_piece_ids(tokenizer, "two")]
    return str(tokenizer.decode(ids, skip_special_tokens=False)) == "one\ntwo"


@lru_cache(maxsize=65536)
def _turn_ids(tokenizer: Any, role: str, content: str) -> tuple[int, ...]:
    """Ids of one turn of our own template: its special tokens isolate it, so turns encode on their own."""
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}")
    opening, end = tokenizer.convert_tokens_to_ids([f"<|{role}|>", END])
    return (opening, *tokenizer.encode(_inert(tokenizer, content), add_special_tokens=False), end)


def _inert(tokenizer: Any, text: str) -> str:
    """Break special-token spellings in data by a space after their first character."""
    if "<" not in text:
        return text
    for special in [*tokenizer.all_special_tokens, *(f"<|{role}|>" for role in ROLES)]:
        text = text.replace(special, special[0] + " " + special[1:])
    return text


def encode_turns(
    tokenizer: Any, chat: list[dict[str, str]], taught: list[bool]
) -> tuple[list[int], list[bool]]:
    """Ids of a dialogue and, per id, whether it is to be learnt: content and end mark of taught turns.

    What a template writes after an end mark is never generated, so it is not learnt. Raises ValueError when the
    template is not prefix-stable, for then turns have no ids of their own.
    """
    ids: list[int] = []
    mask: list[bool] = []
    end = tokenizer.eos_token_id
    for index, learn in enumerate(taught):
        if tokenizer.chat_template == CHAT_TEMPLATE:
            turn = _turn_ids(tokenizer, chat[index]["role"], chat[index]["content"])
            ids.extend(turn)
            mask.extend([False] + [learn] * (len(turn) - 1))
            continue
        if learn and chat[index]["role"] == "assistant":
            # The generation prompt is given, not learnt.
            _extend(ids, mask, encode_chat(tokenizer, chat[:index], generation_prompt=True), False, end)
        _extend(ids, mask, encode_chat(tokenizer, chat[: index + 1], generation_prompt=False), learn, end)
    return ids, mask


def _extend(ids: list[int], mask: list[bool], longer: list[int], learn: bool, end: int | None) -> None:
    if longer[: len(ids)] != ids:
        raise ValueError("the chat template is not prefix-stable")
    added = longer[len(ids) :]
    ids.extend(added)
    last = len(added) - added[::-1].index(end) if learn and end in added else len(added)
    mask.extend([learn] * last + [False] * (len(added) - last))
