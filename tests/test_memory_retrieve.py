"""Retrieval and the prompt: back-off, BM25 last, budget, hostile entries, removal and dropout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_rows import KITCHEN, chat, opened, shop_rows
from wmlab.errors import InputError
from wmlab.memory.apply import augmented
from wmlab.memory.bank import Entry, Key, entry_id
from wmlab.memory.build import Build
from wmlab.memory.keys import query
from wmlab.memory.prompt import (
    AUTHORITY,
    BLOCKS,
    augment,
    dropped,
    inert,
    render_block,
    render_entry,
    with_block,
    without_block,
)
from wmlab.memory.retrieve import Retriever, coverage, estimated_tokens, retrievals

OPEN: Key = (("schema", "open"),)
FRIDGE: Key = (("schema", "open"), ("object", "fridge"))


def entry(
    key: Key, positive: str = "keep it", negative: str = "", domain: str = "alfworld", **changes: Any
) -> Entry:
    kind = changes.pop("kind", "transition")
    payload = {"task_hashes": changes.pop("tasks", [])}
    return Entry(entry_id(domain, kind, key), kind, key, positive, negative, payload, 2, ("a", "b"))


def asking(action: str = "open fridge 1") -> list[dict[str, str]]:
    return chat(KITCHEN, "go to fridge 1", "You arrive at fridge 1.", action)


def test_the_most_specific_key_answers() -> None:
    both = Retriever("alfworld", [entry(OPEN, "general"), entry(FRIDGE, "fridges")])
    found = both.retrieve(asking())
    assert found.block == (
        f"[BEGIN ALFWORLD_MEMORY]\n{AUTHORITY}\nKey: schema=open; object=fridge\nPositive: fridges\n"
        "[END ALFWORLD_MEMORY]\n\n"
    )
    # Levels of this prediction: with goal, room and seen; without seen; without goal; then (schema, object).
    assert [(m.level, m.status) for m in found.matches] == [(3, "used")]
    assert found.how == "keyed" and found.record()["asked"][0].startswith(
        "goal=pick_heat_then_place_in_recep; schema=open"
    )
    assert found.n_tokens == estimated_tokens(found.block)
    assert both.retrieve(asking("open drawer 1")).matches[0].level == 4
    record = found.record()
    assert record["matches"][0]["entry_id"] == entry(FRIDGE).id and record["matches"][0]["score"] is None


def test_every_level_is_reached() -> None:
    chain = query("alfworld", asking(), "open fridge 1").chains[0]
    for level, (_, key) in enumerate(chain):
        found = Retriever("alfworld", [entry(key), entry((("schema", "go"),))]).retrieve(asking())
        assert [match.level for match in found.matches] == [level]


def test_bm25_comes_last() -> None:
    close: Key = (("schema", "close"), ("object", "fridge"))
    only = Retriever("alfworld", [entry(close), entry((("schema", "use"), ("object", "lamp")))])
    found = only.retrieve(asking())
    assert found.how == "bm25" and [match.entry_id for match in found.matches] == [entry(close).id]
    assert found.matches[0].level == -1 and found.matches[0].score is not None and found.matches[0].score > 0
    assert Retriever("alfworld", [entry(close)], bm25_entries=0).retrieve(asking()).how == "none"
    assert only.retrieve(chat("x", "dance")).how == "none"


def test_an_empty_bank_and_a_bank_of_one() -> None:
    nothing = Retriever("alfworld", []).retrieve(asking())
    assert (nothing.block, nothing.n_tokens, nothing.how, nothing.matches) == ("", 0, "none", ())
    assert Retriever("alfworld", [entry(OPEN)]).retrieve(asking()).how == "keyed"
    one = Retriever("alfworld", [entry((("schema", "close"),))])
    assert one.retrieve(asking()).how == "none" and one.retrieve(chat("x", "")).how == "none"


def test_what_does_not_fit_is_left_out_and_recorded() -> None:
    huge = entry(FRIDGE, "word " * 10_000)
    found = Retriever("alfworld", [huge, entry(OPEN)], budget=256).retrieve(asking())
    assert [match.status for match in found.matches] == ["over_budget", "used"]
    assert "Key: schema=open\n" in found.block and "word" not in found.block and found.n_tokens <= 256
    alone = Retriever("alfworld", [huge], budget=256).retrieve(asking())
    assert alone.block == "" and [match.status for match in alone.matches] == ["over_budget"]
    assert Retriever("alfworld", [entry(OPEN)], budget=0).retrieve(asking()).block == ""
    with pytest.raises(InputError, match="at least 0"):
        Retriever("alfworld", [], budget=-1)


def test_a_tokenizer_that_counts_wholes_differently_is_obeyed() -> None:
    def count(text: str) -> int:
        return 100 if "[BEGIN" in text and "keep it" in text else 1

    found = Retriever("alfworld", [entry(OPEN)], budget=50, count_tokens=count).retrieve(asking())
    assert found.block == "" and found.matches[0].status == "over_budget"


def test_entries_of_evaluation_tasks_are_refused() -> None:
    with pytest.raises(InputError, match="evaluation tasks"):
        Retriever("alfworld", [entry(OPEN, tasks=["aa"])], excluded=frozenset({"aa"}))
    Retriever("alfworld", [entry(OPEN, tasks=["bb"])], excluded=frozenset({"aa"}))


def test_the_shop_from_its_own_cache() -> None:
    rows = shop_rows("a")
    bank = list(Build("webshop").entries(rows, None, "rows"))
    shop = Retriever("webshop", bank)
    found = dict(retrievals(shop, shop_rows("b", "another wish"), "rows"))
    assert all(one.how == "keyed" and one.matches[0].level == 0 for one in found.values())
    assert (
        "\nsearch[blue mug] page 1 of 12 results; products: B000000001 | Blue Mug | $9.99"
        in found["b/0"].block
    )
    assert found["b/0"].block.startswith("[BEGIN WEBSHOP_SITE_CACHE]\n")
    near = shop.retrieve(chat(rows[0]["history"][0]["content"], "search[red cup]"))
    assert near.how == "bm25" and near.matches[0].score is not None
    # A click that leads nowhere shows the same page again; after buying there is nothing to know.
    still = shop.retrieve(
        chat(rows[0]["history"][0]["content"], "search[blue mug]", "no page", "click[buy now]")
    )
    assert still.how == "keyed"
    bought = [*rows[1]["history"], {"role": "assistant", "content": rows[1]["observation"]}]
    assert shop.retrieve([*bought, {"role": "user", "content": "click[Buy Now]"}]).how == "none"


def test_coverage_counts() -> None:
    bank = Retriever("alfworld", [entry(FRIDGE, "fridges")])
    found = [bank.retrieve(asking()), bank.retrieve(chat("x", "dance"))]
    told = coverage(found)
    assert (told["prompts"], told["keyed"], told["none"], told["with_block"]) == (2, 1, 1, 1)
    assert told["levels"] == {"schema+object": 1}
    assert told["mean_tokens"] == found[0].n_tokens / 2
    assert coverage([])["mean_tokens"] is None


def test_foreign_rows_are_named() -> None:
    with pytest.raises(InputError, match=r"rows, row 0.*give one domain"):
        list(retrievals(Retriever("textworld", []), [opened("a")], "rows"))


MARKERS = [
    "[BEGIN ALFWORLD_MEMORY]",
    "[END ALFWORLD_MEMORY]",
    "[ end x",
    " [SUCCESS]",
    "[Success ]",
    "\n",
    "\x1e",
    "a",
]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(BLOCKS)),
    st.lists(st.sampled_from(MARKERS) | st.text(max_size=20)).map("".join),
    st.text(),
)
def test_hostile_entries_stay_inside_their_block(domain: str, said: str, content: str) -> None:
    block = render_block(domain, [render_entry(domain, entry((("schema", said),), said, said))])
    name = BLOCKS[domain]
    assert block.count("[BEGIN ") == block.count("[END ") == 1
    assert block.startswith(f"[BEGIN {name}]\n") and block.endswith(f"\n[END {name}]\n\n")
    assert "[SUCCESS]" not in block and "\n" not in inert(said)
    content = content if not content.startswith("[BEGIN ") else content[1:]
    assert without_block(with_block(content, block)) == without_block(content) == content


def test_removal_leaves_the_prompt_as_it_was() -> None:
    plain = asking()
    block = render_block("alfworld", ["Key: a"])
    told = augment(plain, block)
    assert told[0]["content"] == block + KITCHEN and told[1:] == plain[1:]
    assert augment(told, block) == told and augment(told, "") == plain
    assert without_block("[BEGIN ALFWORLD_MEMORY] of a task") == "[BEGIN ALFWORLD_MEMORY] of a task"


def test_dropout_is_by_task_and_nested() -> None:
    tasks = [f"alfworld_{number}" for number in range(2_000)]
    at = {share: {task for task in tasks if dropped(task, share, 7)} for share in (0.0, 0.3, 0.6, 1.0)}
    assert not at[0.0] and len(at[1.0]) == 2_000
    assert at[0.3] < at[0.6] and abs(len(at[0.3]) / 2_000 - 0.3) < 0.05
    assert at[0.3] != {task for task in tasks if dropped(task, 0.3, 8)}
    with pytest.raises(InputError, match="not a share"):
        dropped("a", 1.5, 0)


def test_augmented_transitions_by_task() -> None:
    rows = [{**opened("a"), "task_id": f"alfworld_{number}"} for number in range(40)]
    bank = Retriever("alfworld", [entry(OPEN)])
    told = list(augmented(bank, rows, "rows", dropout=0.5, seed=3))
    for row, (out, found) in zip(rows, told, strict=True):
        assert (found is None) == dropped(row["task_id"], 0.5, 3)
        assert out["history"][0]["content"] == (found.block if found else "") + KITCHEN
        assert out["history"][1:] == row["history"][1:] and {**out, "history": row["history"]} == row
    assert 0 < sum(found is None for _, found in told) < 40
    again = [row for row, _ in augmented(bank, [row for row, _ in told], "rows", dropout=0.5, seed=3)]
    assert again == [row for row, _ in told]  # a block is replaced, never stacked
    with pytest.raises(InputError, match="not a share"):
        list(augmented(bank, [], "rows", dropout=-1.0))
