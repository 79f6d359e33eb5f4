-- Flink writer options for sales.refunds, beside Lakewarden.
-- they are options of the sink in Flink.
-- CAREFUL: its mode is observe, so Lakewarden runs none of the services that are switched off here.
-- Services of Lakewarden, which no other job may run: compaction, clean, archive, orphans, partition_commit.
-- Left to the writer, because they have no policy: ttl.

-- Lakewarden compacts the table, and its writers do not; they expire no snapshots, and create and expire no tags
'write-only' = 'true',

-- a partition that is done is announced; it needs partition.idle-time-to-done of the job
'partition.mark-done-action' = 'success-file,http-report',
'partition.mark-done-action.http.url' = 'http://lakewarden.data.svc:8080/v1/hooks/paimon'
