-- Flink writer options for sales.orders, beside Lakewarden.
-- the waits for the lock are the shortest safe ones.
-- CAREFUL: its mode is observe, so Lakewarden runs none of the services that are switched off here.
-- Services of Lakewarden, which no other job may run: compaction, clean.
-- Left to the writer, because they have no policy: log_compaction, clustering, archive, rollback, ttl, indexing, savepoint, catalog_sync.

-- the lock that Lakewarden takes as well
'hoodie.write.lock.provider' = 'org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider',
'hoodie.write.lock.zookeeper.url' = 'zookeeper.data.svc:2181',
'hoodie.write.lock.zookeeper.base_path' = '/hudi/locks',
'hoodie.write.lock.zookeeper.lock_key' = 'sales.orders',

-- the lock is tried for 10m at least (no hold was measured yet)
'hoodie.write.lock.wait_time_ms' = '60000',
'hoodie.write.lock.wait_time_ms_between_retry' = '500',
'hoodie.write.lock.client.wait_time_ms_between_retry' = '500',
'hoodie.write.lock.client.num_retries' = '10',

-- commits are checked against what others committed meanwhile
'hoodie.write.concurrency.mode' = 'optimistic_concurrency_control',

-- a write counts as failed when its heartbeat stops, not when another writer begins one
'hoodie.clean.failed.writes.policy' = 'LAZY',
'hoodie.cleaner.policy.failed.writes' = 'LAZY',

-- Lakewarden is notified of each commit at once; a callback that fails or is late makes no commit fail
'hoodie.write.commit.callback.on' = 'true',
'hoodie.write.commit.callback.http.url' = 'http://lakewarden.data.svc:8080/v1/hooks/hudi',
'hoodie.write.commit.callback.http.timeout.seconds' = '2',

-- compaction is Lakewarden's
'hoodie.compact.inline' = 'false',
'hoodie.compact.schedule.inline' = 'false',
'compaction.async.enabled' = 'false',
'compaction.schedule.enabled' = 'false',

-- clean is Lakewarden's
'hoodie.clean.automatic' = 'false',
'hoodie.clean.async.enabled' = 'false',
'hoodie.clean.async' = 'false',
'clean.async.enabled' = 'false'
