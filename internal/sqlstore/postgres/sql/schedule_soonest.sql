SELECT
    coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint)),
    (SELECT min(next_fire_at) FROM __alkstore_scheduler_tasks WHERE NOT paused);
