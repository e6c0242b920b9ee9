SELECT min(next_fire_at) FROM __alkstore_scheduler_tasks WHERE paused = 0;
