-- Names only: each is read again inside its own transaction (S5).
SELECT name FROM __alkstore_scheduler_tasks WHERE paused = 0 AND next_fire_at <= :now AND typeof(name) = 'text' ORDER BY next_fire_at, name;
