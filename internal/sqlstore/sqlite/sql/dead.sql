-- Which of :ids are dead.
SELECT job.id, job.spilled != 0
FROM json_each(:ids) AS wanted
CROSS JOIN __alkstore_dead AS job
WHERE job.id = wanted.value;
