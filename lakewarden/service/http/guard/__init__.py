"""The guard between a port and its application. It limits connections, their time, the rate of requests and their size.

A sender is known by its address only. Every limit is one of `limits.LimitSettings`. What a limit refuses is a
`refusals.Refusal`. It is counted, and sometimes logged.
"""
