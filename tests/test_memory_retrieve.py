"""Retrieval and the prompt: back-off, BM25 last, budget, hostile entries, removal and dropout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_rows import KITCHEN, chat, opened, shop_pages, shop_rows
from wmlab.config.memory import MemoryRecipe
from wmlab.errors import InputError
from wmlab.memory.bank import Entry, Key, entry_id, write_bank
from wmlab.memory.build import Build
from wmlab.memory.context import WorldMemory, open_memory, prompts
from wmlab.memory.guard import task_hash
from wmlab.memory.keys import query
from wmlab.memory.prompt import (
    AUTHORITY,
    BLOCKS,
    augment,
    cut,
    dropped,
    inert,
    plain,
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
        "\nsearch[blue mug] page 1 (Total results: 12) [SEP] B000000001 [SEP] Blue Mug" in found["b/0"].block
    )
    assert found["b/0"].block.startswith("[BEGIN WEBSHOP_SITE_CACHE]\n")
    start = shop_pages("another wish")["start"]
    near = shop.retrieve(chat(start, "search[red cup]"))
    assert near.how == "bm25" and near.matches[0].score is not None
    assert (
        shop.retrieve(chat(shop_pages()["start"], "search[red cup]")).how == "none"
    )  # only that task saw it
    # A click that leads nowhere shows the page before once more; after buying there is nothing to know.
    assert shop.retrieve(chat(start, "search[blue mug]", "no page", "click[buy now]")).how == "none"
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
    bare = asking()
    block = render_block("alfworld", ["Key: a"])
    told = augment(bare, block)
    assert told[-1] == {"role": "user", "content": f"{block}open fridge 1"} and told[:-1] == bare[:-1]
    before = augment(bare, block, "system")
    assert before[0]["content"] == block + KITCHEN and before[1:] == bare[1:]
    assert (
        augment(told, block) == told and augment(told, block, "system") == before
    )  # replaced, never stacked
    assert augment(told, "") == plain(told) == plain(before) == bare
    assert without_block("[BEGIN ALFWORLD_MEMORY] of a task") == "[BEGIN ALFWORLD_MEMORY] of a task"
    with pytest.raises(InputError, match="'end': not known; choose from action, system"):
        augment(bare, block, "end")


def test_dropout_is_by_task_and_nested() -> None:
    tasks = [f"alfworld_{number}" for number in range(2_000)]
    at = {share: {task for task in tasks if dropped(task, share, 7)} for share in (0.0, 0.3, 0.6, 1.0)}
    assert not at[0.0] and len(at[1.0]) == 2_000
    assert at[0.3] < at[0.6] and abs(len(at[0.3]) / 2_000 - 0.3) < 0.05
    assert at[0.3] != {task for task in tasks if dropped(task, 0.3, 8)}
    with pytest.raises(InputError, match="not a share"):
        dropped("a", 1.5, 0)


def test_prompts_with_memory_and_without_by_task() -> None:
    told = [(asking(), f"alfworld_{number}") for number in range(40)]
    assert prompts(None, told) == [asking()] * 40
    memory = WorldMemory(Retriever("alfworld", [entry(OPEN)]), MemoryRecipe(dropout=0.5, seed=3))
    block = memory.retriever.retrieve(asking()).block
    for chat_, (_, task) in zip(prompts(memory, told), told, strict=True):
        gone = dropped(task, 0.5, 3)
        assert chat_[-1]["content"] == ("" if gone else block) + "open fridge 1" and plain(chat_) == asking()
        assert memory.retrieve(asking(), task).how == ("dropped" if gone else "keyed")
    assert 0 < sum(chat_ == asking() for chat_ in prompts(memory, told)) < 40


def test_a_task_does_not_see_what_only_it_showed() -> None:
    own = task_hash(asking())
    bank = Retriever("alfworld", [entry(FRIDGE, "mine", tasks=[own]), entry(OPEN, "ours", tasks=["aa", own])])
    assert [match.fields for match in bank.retrieve(asking()).matches] == ["schema"]
    other = chat("Your task is to: look.", "open fridge 1")
    assert "mine" in bank.retrieve(other).block
    alone = Retriever("alfworld", [entry(FRIDGE, "mine", tasks=[own])])
    assert alone.retrieve(asking()).how == "none" and alone.retrieve(other).how == "keyed"


def test_a_page_is_cut_after_a_whole_field() -> None:
    text = "search[mug] page 1 [SEP] B000000001 [SEP] Blue Mug [SEP] $9.99"
    assert cut(text, lambda part: len(part) <= len(text)) == text
    assert (
        cut(text, lambda part: len(part) < len(text)) == "search[mug] page 1 [SEP] B000000001 [SEP] Blue Mug"
    )
    assert cut(text, lambda part: len(part) < 20) == ""  # a head alone says nothing
    rows = shop_rows("a")
    bank = list(Build("webshop").entries(rows, None, "rows"))
    whole = Retriever("webshop", bank).retrieve(shop_rows("b", "another wish")[0]["history"])
    small = Retriever("webshop", bank, budget=whole.n_tokens - 1)
    found = small.retrieve(shop_rows("b", "another wish")[0]["history"])
    assert found.matches[0].status == "cut" and found.n_tokens < whole.n_tokens
    assert "B000000002 [SEP] Red Cup\n[END" in found.block and "$5.00" not in found.block


def test_a_bank_is_opened_for_one_domain_and_clean_tasks(tmp_path: Any) -> None:
    bank, rows = tmp_path / "bank.jsonl", [{"domain": "alfworld"}]
    write_bank(bank, [entry(OPEN, tasks=["aa"])])
    memory = open_memory(bank, '{"budget": 400, "position": "system"}', rows, "rows", None)
    assert memory is not None and memory.prompt(asking(), "t")[0]["content"].startswith(
        "[BEGIN ALFWORLD_MEMORY]"
    )
    assert open_memory(None, "{}", rows, "rows", None) is None
    with pytest.raises(InputError, match="evaluation tasks"):
        open_memory(bank, "{}", rows, "rows", None, frozenset({"aa"}))
    with pytest.raises(InputError, match="2 domains"):
        open_memory(bank, "{}", [*rows, {"domain": "webshop"}], "rows", None)
    with pytest.raises(InputError, match="budgt"):
        open_memory(bank, '{"budgt": 1}', rows, "rows", None)
