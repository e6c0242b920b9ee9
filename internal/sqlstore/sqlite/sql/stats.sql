-- One ready time that was edited into a fraction, or is as far back as a number goes, must not hide the age of the others (K3).
WITH
waiting AS (
    SELECT queue,
        count(*) FILTER (WHERE run_at <= :now) AS ready,
        count(*) FILTER (WHERE run_at > :now) AS delayed,
        :now - CAST(min(max(run_at, -1000000000000)) FILTER (WHERE run_at <= :now) AS INTEGER) AS oldest_ready_s
    FROM __alkstore_live WHERE state = 'pending' GROUP BY queue
),
running AS (SELECT queue, count(*) AS processing FROM __alkstore_live WHERE state = 'processing' GROUP BY queue),
buried AS (SELECT queue, count(*) AS dead FROM __alkstore_dead GROUP BY queue),
serving AS (SELECT queue, count(*) AS workers FROM __alkstore_workers WHERE expires_at >= :now GROUP BY queue),
stopped AS (SELECT queue, paused FROM __alkstore_queues WHERE paused = 1),
known AS (
    SELECT queue FROM waiting UNION SELECT queue FROM running UNION SELECT queue FROM buried
    UNION SELECT queue FROM serving UNION SELECT queue FROM stopped
)
SELECT
    known.queue, coalesce(ready, 0), coalesce(delayed, 0), coalesce(processing, 0), coalesce(dead, 0), oldest_ready_s,
    coalesce(workers, 0), coalesce(paused, 0)
FROM known
LEFT JOIN waiting ON waiting.queue = known.queue
LEFT JOIN running ON running.queue = known.queue
LEFT JOIN buried ON buried.queue = known.queue
LEFT JOIN serving ON serving.queue = known.queue
LEFT JOIN stopped ON stopped.queue = known.queue
ORDER BY known.queue;
