-- Flink writer options for landing.clicks, beside Lakewarden.
-- they are options of the sink in Flink.
-- CAREFUL: its mode is observe, so Lakewarden runs none of the services that are switched off here.
-- Services of Lakewarden, which no other job may run: partition_commit, compaction.
-- Left to the writer, because they have no policy: orphans, ttl.

-- a part to which nothing is written is closed, so that its partition can be committed; leave out sink.partition-commit.policy.kind, by which Flink would commit it before
'sink.rolling-policy.inactivity-interval' = '1 min'
