"""FastDownward in a process of its own: the planner that certifies generated games.

The planner is a C library that cannot be interrupted and whose Python translator rewrites ``sys.argv``
and captures standard output; a child process gives it a time limit and keeps all of that away. Run as
``python -m wmlab.domains.alfworld.downward``: PDDL domain and problem as JSON on standard input, the
plan's operators as JSON on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from wmlab.errors import EnvironmentFailure


def solve(domain: str, problem: str, timeout_s: float) -> list[str] | None:
    """Operators (``name argument …``) of a plan; None when there is none or not in time.

    Raises EnvironmentFailure when the planner itself does not work.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps([domain, problem]),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise EnvironmentFailure(f"FastDownward failed ({last[0]})")
    plan: list[str] | None = json.loads(lines[-1])
    return plan


def main() -> None:
    """Solve the problem on standard input."""
    import fast_downward

    domain, problem = json.loads(sys.stdin.read())

    _, sas = fast_downward.pddl2sas(domain, problem, optimize=True)
    library = fast_downward.load_lib()
    plan: list[str] | None = None
    if library.solve_sas(sas.encode(), False):
        operators = (fast_downward.Operator * library.get_last_plan_length())()
        library.get_last_plan(operators)
        plan = [operator.name for operator in operators]
    sys.stdout.write("\n" + json.dumps(plan) + "\n")


if __name__ == "__main__":
    main()
