WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
waiting AS MATERIALIZED (
    SELECT queue,
        count(*) FILTER (WHERE run_at <= (SELECT now FROM clock)) AS ready,
        count(*) FILTER (WHERE run_at > (SELECT now FROM clock)) AS delayed,
        (SELECT now FROM clock) - min(greatest(run_at, -1000000000000)) FILTER (WHERE run_at <= (SELECT now FROM clock))
            AS oldest_ready_s
    FROM __alkstore_live WHERE state = 'pending' GROUP BY queue
),
running AS MATERIALIZED (
    SELECT queue, count(*) AS processing FROM __alkstore_live WHERE state = 'processing' GROUP BY queue
),
buried AS MATERIALIZED (SELECT queue, count(*) AS dead FROM __alkstore_dead GROUP BY queue),
serving AS MATERIALIZED (
    SELECT queue, count(*) AS workers FROM __alkstore_workers WHERE expires_at >= (SELECT now FROM clock) GROUP BY queue
),
stopped AS MATERIALIZED (SELECT queue, paused FROM __alkstore_queues WHERE paused),
known AS (
    SELECT queue FROM waiting UNION SELECT queue FROM running UNION SELECT queue FROM buried
    UNION SELECT queue FROM serving UNION SELECT queue FROM stopped
)
SELECT
    known.queue, coalesce(waiting.ready, 0), coalesce(waiting.delayed, 0), coalesce(running.processing, 0),
    coalesce(buried.dead, 0), waiting.oldest_ready_s, coalesce(serving.workers, 0), coalesce(stopped.paused, false)
FROM known
LEFT JOIN waiting ON waiting.queue = known.queue
LEFT JOIN running ON running.queue = known.queue
LEFT JOIN buried ON buried.queue = known.queue
LEFT JOIN serving ON serving.queue = known.queue
LEFT JOIN stopped ON stopped.queue = known.queue
ORDER BY known.queue;
