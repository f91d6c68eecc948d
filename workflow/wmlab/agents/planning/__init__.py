"""Planners: agents that try actions in a world model before they take one in the world.

A planner is a generator per decision that asks (requests.py) and is answered; planner.py runs many of them at once,
so that one batched call serves all episodes. Who answers: a policy (likelihood.py, prompted.py) and a simulator
(simulator.py: a world model, or the real environment).
"""
