"""Streams of stages as compiled programs: the only driver of agents, simulations and backtests."""
