-- The time, unless it is given, and when the next schedule is due. All that an idle scheduler asks, each second.
SELECT coalesce(:now, unixepoch()), (SELECT min(next_fire_at) FROM __alkstore_scheduler_tasks WHERE paused = 0);
