-- The time, unless it is given, and when the next schedule is due. All that an idle scheduler asks, each second. A due
-- time that was edited into a fraction counts as its second; one that is no number is never due.
SELECT coalesce(:now, unixepoch()), (
    SELECT CAST(next_fire_at AS INTEGER) FROM __alkstore_scheduler_tasks
    WHERE paused = 0 AND typeof(name) = 'text' AND typeof(next_fire_at) != 'text' AND typeof(next_fire_at) != 'blob'
    ORDER BY next_fire_at LIMIT 1
);
