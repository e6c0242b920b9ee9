-- The time, unless it is given, and when the next schedule is due. All that an idle scheduler asks, each second.
SELECT coalesce(:now, unixepoch()), (
    SELECT next_fire_at FROM __alkstore_scheduler_tasks
    WHERE paused = 0 AND typeof(name) = 'text'
    ORDER BY next_fire_at LIMIT 1
);
