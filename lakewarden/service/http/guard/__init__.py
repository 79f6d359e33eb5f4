"""What stands between a port and its application: who may connect, for how long, how often, with how much.

A sender is known by its address and by nothing else. Every limit is one of `limits.LimitSettings`; what a limit turns
away is a `refusals.Refusal`, counted and now and then logged.
"""
