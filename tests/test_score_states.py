"""``wmlab score states``: a stream of any length, one process or several, failures by line."""

import io
import json
import random
import subprocess
import sys

import pytest
from rapidfuzz.distance import LCSseq
from wmlab.errors import EnvironmentFailure, InputError
from wmlab.metrics import score, text

METRICS = ["em", "f1", "rouge_l", "ssf"]


def lines_of(rows):
    return [json.dumps(row).encode() + b"\n" for row in rows]


def run(rows, *, workers=1, domain="webshop", metrics=METRICS):
    out = io.BytesIO()
    totals = score.score_stream(domain, rows, metrics, out.write, workers=workers, source="in.jsonl")
    return totals, [json.loads(line) for line in out.getvalue().splitlines()]


def pairs(n):
    page = "Back to Search [SEP] Page 1 (Total results: {0}) [SEP] Next > [SEP] B09AAAAA{0:02d} [SEP] Mug {0} [SEP] $1.5"
    for number in range(n):
        gold = page.format(number % 100)
        yield {
            "id": f"p{number}",
            "prediction": gold if number % 3 else page.format(number % 7),
            "gold": gold,
        }


def test_the_stream_gives_the_rows_of_score_pairs():
    rows = [
        *pairs(50),
        {"id": 7, "gold": "x"},
        {"id": 8, "prediction": 3, "gold": "x"},
        {"prediction": "a", "gold": "a"},
    ]
    totals, found = run(lines_of(rows))
    assert found == score.score_pairs("webshop", rows, METRICS)
    assert (totals.rows, totals.failed) == (53, 3)
    assert [row for row in found if "error" in row] == [
        {"id": 7, "error": "pair 51: prediction is missing; write {id, prediction, gold}"},
        {"id": 8, "error": "pair 52: prediction is int, not text; write a string"},
        {"id": None, "error": "pair 53: id is missing; write {id, prediction, gold}"},
    ]
    good = [row for row in found if "error" not in row]
    for name in METRICS:
        assert totals.means()[name] == pytest.approx(sum(row[name] for row in good) / 50)


def test_workers_keep_the_order():
    rows = lines_of(pairs(5 * score.CHUNK_LINES + 3))
    totals, found = run(rows, workers=2)
    assert found == run(rows)[1] and [row["id"] for row in found] == [f"p{i}" for i in range(len(rows))]
    assert totals.rows == len(rows)
    bad = [*rows[:-1], b"{broken\n"]
    with pytest.raises(InputError, match=f"in.jsonl, row {len(rows)}: not JSON"):
        run(bad, workers=2)


def _die(*_):
    import os

    os._exit(1)


def test_a_dead_worker_is_an_error(monkeypatch):
    monkeypatch.setattr(score, "score_chunk", _die)
    with pytest.raises(EnvironmentFailure, match="worker died"):
        run(lines_of(pairs(3)), workers=2)


@pytest.mark.parametrize("domain", ["webshop", "scienceworld", "textworld", "nowhere"])
def test_hostile_lines(domain):
    metrics = METRICS if domain != "nowhere" else METRICS[:3]
    odd = [
        "\ud800",
        "",
        " ",
        "\u2028 \x85 a",
        "[SEP]" * 50,
        "a" * 100_000,
        "NaN",
        "\x00",
        "(" * 2_000,
        "é" * 50,
    ]
    rows = [
        {"id": i, "prediction": p, "gold": g} for i, (p, g) in enumerate((p, g) for p in odd for g in odd)
    ]
    totals, found = run(lines_of(rows), domain=domain, metrics=metrics)
    assert totals.failed == 0 and len(found) == 100
    for row, pair in zip(found, rows, strict=True):
        assert row["id"] == pair["id"]
        assert all(0.0 <= row[name] <= 1.0 for name in metrics)
        if pair["prediction"] == pair["gold"]:
            assert all(row[name] == 1.0 for name in metrics)


@pytest.mark.parametrize(
    ("line", "problem"),
    [(b"{\n", "not JSON"), (b"[1]\n", "not a JSON object"), (b"\xff\n", "not JSON"), (b'{"id": NaN}\n', "NaN"),
     (b"[" * 100_000 + b"\n", "not JSON")],
)  # fmt: skip
def test_a_line_that_is_no_object_is_refused(line, problem):
    with pytest.raises(InputError, match=r"in\.jsonl, row 3") as caught:
        run([*lines_of(pairs(2)), line, *lines_of(pairs(1))])
    assert problem in str(caught.value)


def test_blank_and_torn_lines():
    rows = lines_of(pairs(2))
    assert len(run([rows[0], b"\n", rows[1], b'{"id": 3, "pre'])[1]) == 2
    assert run([])[1] == [] and run([])[0].means() == {}


def test_tokens_are_matched_exactly():
    rng = random.Random(1)
    for _ in range(3_000):
        left = rng.choices("abcd", k=rng.randrange(14))
        right = list(left) if rng.random() < 0.5 else rng.choices("abxy", k=rng.randrange(14))
        for _ in range(rng.randrange(3)):
            right.insert(rng.randrange(len(right) + 1), rng.choice("axz"))
            if rng.random() < 0.5:
                right.pop(rng.randrange(len(right)))
        glue = rng.choice([" ", "  ", "\n", " \u2003"])
        pair = text.Tokens.of(glue.join(left), " ".join(right) if rng.random() < 0.5 else glue.join(right))
        most, least = pair.overlap()
        exact = LCSseq.similarity(left, right)
        assert most == sum(min(left.count(t), right.count(t)) for t in set(left))
        assert least <= exact <= most and pair.subsequence(most, least) == exact
        assert pair.f_measure(most) == (2 * most / (len(left) + len(right)) if left or right else 1.0)


def test_memory_is_bounded_and_the_command_prints_its_result(tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    pair = {"id": 1, "prediction": "x " * 1_000, "gold": "x " * 999 + "y"}
    line = json.dumps(pair)
    with source.open("w") as file:
        for _ in range(40_000):  # 160 MB
            file.write(line + "\n")
    command = [
        sys.executable,
        "-m",
        "wmlab",
        "score",
        "states",
        "--domain",
        "textworld",
        "--metrics",
        "em",
        "--input",
    ]
    # The peak of the process since its own start (ru_maxrss would include the parent's).
    code = (
        "import sys; from wmlab.cli.main import main\n"
        "try: main()\n"
        "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *command[3:], str(source), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) < 150 * 1024  # kB
    assert "40000 rows, 0 failed; em 0.0000" in done.stdout
